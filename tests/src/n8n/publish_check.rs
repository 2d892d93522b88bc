//! The copies that `validate_workflow` makes, in an n8n that fails in between.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{done, server_with_all};
use crate::harness::{FakeService, Request, Response, Server, assert_contains};

type Workflows = Arc<Mutex<Vec<Value>>>;

/// An n8n with these workflows; `fault` answers in its place after it has done what was asked.
async fn fake(
    workflows: &Workflows,
    fault: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static,
) -> (FakeService, Server) {
    let workflows = Arc::clone(workflows);
    let fake = FakeService::start(move |request| {
        let answer = answer(&mut workflows.lock().unwrap(), request);
        fault(request).unwrap_or(answer)
    })
    .await;
    let server = server_with_all(&fake).await;
    (fake, server)
}

fn answer(workflows: &mut Vec<Value>, request: &Request) -> Response {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let mut path = path.trim_start_matches("/api/v1/").split('/');
    let (kind, id, action) = (path.next(), path.next(), path.next());
    let at = workflows.iter().position(|one| one["id"].as_str() == id);
    match (request.method.as_str(), kind, at, action) {
        ("GET", Some("workflows"), None, None) if query.contains("name=publish") => {
            Response::json(200, &json!({"data": workflows, "nextCursor": null}))
        }
        ("POST", Some("workflows"), None, None) => {
            let mut made = request.json();
            made["id"] = json!(uuid::Uuid::new_v4().to_string());
            made["createdAt"] = json!("2999-01-01T00:00:00.000Z");
            workflows.push(made.clone());
            Response::json(200, &made)
        }
        ("POST", _, Some(at), Some("activate")) => {
            let called = workflows[at]["name"].as_str().unwrap();
            let called = called.split([' ', ',']).nth(2).unwrap();
            let text = format!("Node \"C\" references workflow {called} which is not published");
            Response::json(400, &json!({"message": text}))
        }
        ("DELETE", _, Some(at), None) => Response::json(200, &workflows.remove(at)),
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    }
}

fn copy(id: &str, made: &str) -> Value {
    let called = uuid::Uuid::new_v4().simple().to_string();
    json!({"id": id, "name": format!("publish check {called}, deleted at once"), "createdAt": made,
        "nodes": [{"name": format!("calls {called}")}]})
}

async fn validate(server: &Server) -> Value {
    let nodes =
        json!([{"name": "Hook", "type": "n8n-nodes-base.webhook", "parameters": {"path": "p"}}]);
    let workflow = json!({"name": "W", "nodes": nodes});
    done!(server.client().await, "validate_workflow", {"workflow": workflow})
}

fn ids(workflows: &Workflows) -> Vec<String> {
    let workflows = workflows.lock().unwrap();
    let id = |one: &Value| one["id"].as_str().unwrap().to_owned();
    workflows.iter().map(id).collect()
}

#[tokio::test]
async fn copies_that_were_left_behind_are_deleted_and_nothing_else() {
    let long_ago = "2020-01-01T00:00:00.000Z";
    let mut own = copy("own", long_ago);
    own["nodes"] = json!([]);
    let all = vec![
        copy("left", long_ago),
        copy("in-use", "2999-01-01T00:00:00.000Z"),
        own,
    ];
    let workflows = Arc::new(Mutex::new(all));
    let lost = AtomicUsize::new(1);
    let (_fake, server) = fake(&workflows, move |request| {
        let is_create = request.method == "POST" && request.target == "/api/v1/workflows";
        let lose = |left: usize| left.checked_sub(1);
        let is_lost = is_create
            && lost
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lose)
                .is_ok();
        is_lost.then(|| Response::html(502))
    })
    .await;
    let found = validate(&server).await;
    assert_contains(&found["unchecked"][0], "not ready");
    assert_eq!(ids(&workflows), ["in-use", "own"]);
    let found = validate(&server).await;
    assert!(
        !found["unchecked"].to_string().contains("publishing"),
        "{found}"
    );
    assert_eq!(ids(&workflows), ["in-use", "own"]);
}

#[tokio::test]
async fn copy_that_n8n_publishes_is_deleted_and_no_verdict() {
    let workflows = Workflows::default();
    let activations = AtomicUsize::new(0);
    let (fake, server) = fake(&workflows, move |request| {
        let target = request.target.as_str();
        if target.ends_with("/deactivate") {
            return Some(Response::html(500));
        }
        let is_published =
            target.ends_with("/activate") && activations.fetch_add(1, Ordering::Relaxed) > 0;
        is_published.then(|| Response::json(200, &json!({"id": "w", "name": "W"})))
    })
    .await;
    for _ in 0..2 {
        let found = validate(&server).await;
        assert_contains(&found["unchecked"][0], "only when it publishes");
        assert_eq!(ids(&workflows), [""; 0]);
    }
    let requests = fake.requests();
    let is_activation = |one: &&Request| one.target.ends_with("/activate");
    // That of a workflow that n8n refuses, and the one that it published.
    assert_eq!(requests.iter().filter(is_activation).count(), 2);
}
