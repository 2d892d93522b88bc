//! `run_task` and `cancel_task` while the agent server misbehaves: no task is lost or started twice.

use std::sync::Mutex;

use mcp_core::tool::ToolErrorKind as Kind;
use serde_json::{Value, json};

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, assert_error};

const CREATE: &str = "POST /api/conversations";

fn is_poll(request: &RecordedRequest) -> bool {
    let target = &request.target;
    target.starts_with("GET /api/conversations/") && target.len() == 23 + 36
}

/// An agent server that does not confirm the creation of a task, the first time or always.
async fn unconfirmed(always: bool) -> FakeAgentServer {
    FakeAgentServer::start(move |request, before| match request.target.as_str() {
        CREATE if always || before == 0 => Reply::Disconnect,
        _ => Reply::Default,
    })
    .await
}

#[tokio::test]
async fn nothing_is_created_without_a_model() {
    let fake = FakeAgentServer::start(|request, _| match request.target.as_str() {
        "GET /api/settings" => Reply::Json(
            200,
            json!({"agent_settings": {"agent_kind": "openhands", "llm": {"base_url": null}},
                "llm_api_key_is_set": false, "active_agent_profile_id": null}),
        ),
        _ => Reply::Default,
    })
    .await;
    let error = fake.refuse("run_task", json!({"task": "t"})).await;
    assert_error(&error, Kind::Conflict, "PATCH /api/settings");
    // To list the profiles would create a broken one.
    assert_eq!(fake.requests("GET /api/agent-profiles").len(), 0);
    assert_eq!(fake.requests("POST").len(), 0);
}

#[tokio::test]
async fn full_agent_server_is_asked_again_and_then_refuses() {
    let full = || Reply::Json(429, json!({"detail": "Run limit reached."}));
    for (arguments, advice) in [
        (json!({"task": "t", "wait_seconds": 0}), "Run it again"),
        (
            json!({"task": "t", "wait_seconds": 0, "idempotency_key": "k"}),
            "with the same idempotency_key",
        ),
    ] {
        let has_key = arguments.get("idempotency_key").is_some();
        let fake = FakeAgentServer::start(move |request, _| match request.target.as_str() {
            CREATE => full(),
            _ if is_poll(request) && has_key => Reply::Json(404, json!({"detail": "Not Found"})),
            _ => Reply::Default,
        })
        .await;
        let error = fake.refuse("run_task", arguments).await;
        assert_error(&error, Kind::Unavailable, advice);
        assert!(error.message().contains("not started"), "{error}");
        assert!(fake.requests(CREATE).len() > 1);
    }
    let fake = FakeAgentServer::start(move |request, before| match request.target.as_str() {
        CREATE if before == 0 => full(),
        _ => Reply::Default,
    })
    .await;
    let run = fake
        .call("run_task", json!({"task": "t", "wait_seconds": 0}))
        .await;
    assert_eq!(run["status"], "finished", "{run}");
    assert_eq!(fake.requests(CREATE).len(), 2);
}

#[tokio::test]
async fn start_that_was_cut_off_is_taken_up_by_the_repeated_call() {
    let task = Mutex::new(None::<Value>);
    let fake = FakeAgentServer::start(move |request, before| {
        let mut task = task.lock().unwrap();
        let path = request.path();
        match (request.target.as_str(), task.as_mut()) {
            ("GET /api/profiles", _) => {
                Reply::Json(200, json!({"profiles": [{"name": "m", "model": null}]}))
            }
            (CREATE, _) => {
                let new = request.json();
                let new = json!({"id": new["conversation_id"], "execution_status": "idle",
                    "tags": new["tags"]});
                *task = Some(new.clone());
                Reply::Json(201, new)
            }
            (_, Some(_)) if path.ends_with("/events/count") => Reply::Json(200, json!(1)),
            (_, Some(_)) if path.ends_with("/run") && before == 0 => Reply::Json(500, json!({})),
            (_, Some(task)) if path.ends_with("/run") => {
                task["execution_status"] = json!("finished");
                Reply::Default
            }
            (target, Some(task)) if target.starts_with("PATCH") => {
                task["tags"] = request.json()["tags"].clone();
                Reply::Default
            }
            (_, Some(task)) if is_poll(request) => Reply::Json(200, task.clone()),
            (_, None) if is_poll(request) => Reply::Json(404, json!({"detail": "Not Found"})),
            _ => Reply::Default,
        }
    })
    .await;
    let arguments = json!({"task": "t", "model": "m", "idempotency_key": "k"});
    let error = fake.refuse("run_task", arguments.clone()).await;
    assert_error(&error, Kind::Unavailable, "HTTP 500");
    let run = fake.call("run_task", arguments).await;
    assert_eq!(run["status"], "finished", "{run}");
    let counts = ["", "/events", "/run"].map(|end| {
        let posts = fake.requests(CREATE);
        let ends = posts.iter().filter(|post| match end {
            "" => post.target == CREATE,
            end => post.target.ends_with(end),
        });
        ends.count()
    });
    assert_eq!(counts, [1, 1, 2]);
}

#[tokio::test]
async fn lost_response_is_retried_with_the_same_id() {
    let fake = unconfirmed(false).await;
    let run = fake.call("run_task", json!({"task": "t"})).await;
    let creates = fake.requests(CREATE);
    assert_eq!(creates.len(), 2);
    assert_eq!(creates[0].body, creates[1].body);
    assert!(creates[0].body.contains(run["task_id"].as_str().unwrap()));
}

#[tokio::test]
async fn unconfirmed_start_reports_the_id() {
    let fake = unconfirmed(true).await;
    let error = fake.refuse("run_task", json!({"task": "t"})).await;
    let created = fake.requests(CREATE)[0].json();
    let id = created["conversation_id"].as_str().unwrap();
    assert!(error.message().contains("not known"), "{error}");
    assert!(error.message().contains(id), "{error}");
}

#[tokio::test]
async fn unconfirmed_stop_is_reported() {
    let fake = FakeAgentServer::start(|request, _| {
        if request.target.ends_with("/interrupt") {
            Reply::Disconnect
        } else if is_poll(request) {
            Reply::Json(200, json!({"id": super::ID, "execution_status": "running"}))
        } else {
            Reply::Default
        }
    })
    .await;
    let error = fake.refuse("cancel_task", json!({"task_id": ID})).await;
    assert!(error.message().contains("has not confirmed"), "{error}");
}
