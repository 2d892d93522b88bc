//! Workflows in n8n's lists that its own API would not take, in a fake: rows of its database that other programs
//! wrote.

use serde_json::json;

use super::{SERVER, assert_refused, call, done};
use crate::harness::{FakeService, Response, Server};

/// n8n has done what it does not say, or may have.
#[tokio::test]
async fn change_without_a_readable_answer_may_have_happened() {
    for (answer, part) in [
        (Response::html(200), "accepted the request all the same"),
        (Response::html(504), "may have happened"),
    ] {
        let fake = FakeService::start(move |request| match request.method.as_str() {
            "GET" => Response::json(200, &json!({"data": [], "nextCursor": null, "id": "w"})),
            _ => answer.clone(),
        })
        .await;
        let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
        let server = Server::with_args(SERVER, &["--toolsets", "all"], &env).await;
        let client = server.client().await;
        let hook =
            json!({"name": "H", "type": "n8n-nodes-base.webhook", "parameters": {"path": "p"}});
        refused!(client, "create_workflow", {"name": "W", "nodes": [hook]}, part);
        refused!(client, "archive_workflow", {"workflow_id": "w"}, part);
        refused!(client, "create_tag", {"name": "t"}, part);
        let data = json!({"name": "X", "value": "y"});
        refused!(client, "create_credential", {"name": "c", "type": "httpHeaderAuth", "data": data}, part);
        refused!(client, "call_n8n_api", {"method": "POST", "path": "variables", "body": {"key": "a"}}, part);
    }
}

#[tokio::test]
async fn one_bad_row_spoils_no_list() {
    let odd = json!({
        "id": "odd", "name": "Odd", "active": null, "tags": null, "shared": null, "settings": null, "meta": null,
        "connections": {"A": null}, "pinData": null, "updatedAt": null,
        "nodes": [null, {"name": 7, "parameters": null, "credentials": [], "webhookId": {}, "typeVersion": "2"}],
    });
    let fake = FakeService::start(move |request| {
        let path = request.target.split('?').next().unwrap_or_default();
        match path.trim_start_matches("/api/v1/") {
            "workflows" => {
                let good = json!({"id": "good", "name": "Good", "active": false});
                let rows = json!([good, {"name": "No id"}, 7, odd]);
                Response::json(200, &json!({"data": rows, "nextCursor": null}))
            }
            _ => Response::json(200, &odd),
        }
    })
    .await;
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
    let server = Server::with_args(SERVER, &["--toolsets", "all"], &env).await;
    let client = server.client().await;
    let listed = done!(client, "list_workflows", {});
    let ids = crate::harness::member_texts(&listed["workflows"], "id");
    assert_eq!(ids, ["good", "odd"], "{listed}");
    let left_out = listed["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 2, "{listed}");
    assert!(left_out[0].as_str().unwrap().contains("No id"), "{listed}");
    let resource = server
        .result("resources/read", json!({"uri": "n8n://workflows"}))
        .await;
    assert!(resource.to_string().contains("good"), "{resource}");
    for full in [false, true] {
        let shown = done!(client, "get_workflow", {"workflow_id": "odd", "full": full});
        assert_eq!(shown["name"], "Odd", "{shown}");
    }
    for (tool, arguments) in [
        ("archive_workflow", json!({"workflow_id": "odd"})),
        (
            "delete_workflow",
            json!({"workflow_id": "odd", "confirm": "odd"}),
        ),
    ] {
        let text = call(&client, tool, arguments).await.text();
        assert!(!text.contains("does not answer like"), "{tool}: {text}");
    }
}
