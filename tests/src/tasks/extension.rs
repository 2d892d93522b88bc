//! `io.modelcontextprotocol/tasks`, beyond what the official suite checks over HTTP (its scenarios `tasks-…`).

use mcp_client::EraChoice;
use serde_json::{Value, json};

use super::client::{Client, Memory};
use super::{accept, capabilities, text};
use crate::client::connected;
use crate::harness::{Dialect, Server, modern_meta, rpc};
use crate::stdio::StdioServer;

#[tokio::test]
async fn lifecycle_over_stdio() {
    let client = &mut Client::remote(None, EraChoice::Modern).await;
    finishes(client).await;
    fails(client).await;
    asks(client).await;
}

async fn finishes(client: &mut Client) {
    let arguments = json!({"seconds": 1, "label": "sum"});
    let created = client.call("slow_compute", arguments).await;
    assert_has!(created, {"resultType": "task", "status": "working", "statusMessage": "0 of 1 s",
        "ttlMs": 3_600_000});
    let id = &created["taskId"];
    assert_eq!(id.as_str().unwrap().len(), 32);
    assert!(created["pollIntervalMs"].as_u64() > Some(0), "{created}");
    for absent in ["result", "error", "inputRequests"] {
        assert_eq!(created.get(absent), None);
    }
    let ended = client.until(id, "completed").await;
    assert_eq!(ended["createdAt"], created["createdAt"]);
    assert_eq!(text(&ended["result"]), "sum: 1 s");
    // An ended task does not change.
    let get = json!({"taskId": id});
    client.result("tasks/cancel", get.clone()).await;
    assert_eq!(client.result("tasks/get", get).await, ended);
}

/// A failed tool has a result, a tool that panics has none.
async fn fails(client: &mut Client) {
    let created = client.call("failing_job", json!({})).await;
    let ended = client.until(&created["taskId"], "completed").await;
    assert_eq!(ended["statusMessage"], text(&ended["result"]));

    let created = client.call("protocol_error_job", json!({})).await;
    let ended = client.until(&created["taskId"], "failed").await;
    assert_eq!(ended["error"]["code"], -32603);
    assert_eq!(ended["statusMessage"], ended["error"]["message"]);
}

async fn asks(client: &mut Client) {
    let created = client.call("multi_input", json!({})).await;
    let id = &created["taskId"];
    let asking = client.until(id, "input_required").await;
    let question = &asking["inputRequests"]["first"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "What is your first name?");

    let update = |responses: Value| json!({"taskId": id, "inputResponses": responses});
    // An answer without a question is ignored.
    let one = json!({"first": accept(json!({"name": "Ada"})), "middle": {}});
    client.result("tasks/update", update(one)).await;
    // The first answer counts.
    let both = json!({
        "first": accept(json!({"name": "Eve"})),
        "last": accept(json!({"name": "Lovelace"})),
    });
    client.result("tasks/update", update(both)).await;
    let ended = client.until(id, "completed").await;
    assert_eq!(text(&ended["result"]), "Hello, Ada Lovelace!");
    // So is an answer to a task that has ended.
    let late = update(json!({"last": {}}));
    client.result("tasks/update", late).await;
    for invalid in [update(json!({"last": 1})), json!({"taskId": id})] {
        client.refused(-32602, "tasks/update", invalid).await;
    }
}

#[tokio::test]
async fn immediate_result_is_no_task() {
    let mut client = Client::modern(Memory::new());
    let computed = client.call("slow_compute", json!({"seconds": 0})).await;
    assert_eq!(computed["resultType"], "complete");
    let wrong = json!({"seconds": "many"});
    let refused = client.call("slow_compute", wrong).await;
    assert_has!(refused, {"resultType": "complete", "isError": true});
}

#[tokio::test]
async fn client_without_the_extension_cannot_use_tasks() {
    let mut client = Client::declaring(Memory::new(), json!({}));
    let filter = json!({"notifications": {"taskIds": ["x"]}});
    client.refused(-32021, "subscriptions/listen", filter).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "x", "inputResponses": {}});
        client.refused(-32021, method, params).await;
    }
}

/// The error is the one that the request would have got.
#[tokio::test]
async fn missing_capability_fails_the_task() {
    let only_tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = Client::declaring(Memory::new(), only_tasks);
    let created = client.call("multi_input", json!({})).await;
    let ended = client.until(&created["taskId"], "failed").await;
    assert_eq!(ended["error"]["code"], -32021);
    let missing = json!({"elicitation": {}});
    assert_eq!(ended["error"]["data"]["requiredCapabilities"], missing);
}

#[tokio::test]
async fn ids_and_headers_are_checked() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut client = Client::remote(Some(&server), EraChoice::Modern).await;
    for id in [json!("0".repeat(32)), json!(""), json!(7), Value::Null] {
        for method in ["tasks/get", "tasks/cancel"] {
            client.refused(-32602, method, json!({"taskId": id})).await;
        }
    }
    client.refused(-32602, "tasks/get", json!({})).await;
    let listed = client.result("tools/list", json!({})).await;
    assert!(!listed.to_string().contains("execution"));
    // A proxy may have routed the request by the header, so it must match the body.
    let params = json!({"taskId": "x", "_meta": modern_meta(capabilities())});
    for name in ["", "y"] {
        let headers = Dialect::Modern.headers_of("tasks/get", name);
        let frame = rpc("tasks/get", params.clone()).to_string();
        let reply = server.post_with(&headers, frame).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(reply.json()["error"]["code"], -32020, "{reply:?}");
    }
    // Only 2025-11-25 has these two methods.
    for method in ["tasks/result", "tasks/list"] {
        let headers = Dialect::Modern.headers_of(method, "x");
        let frame = rpc(method, params.clone()).to_string();
        let reply = server.post_with(&headers, frame).await;
        assert_eq!(reply.status, 404, "{reply:?}");
        assert_eq!(reply.json()["error"]["code"], -32601, "{reply:?}");
    }
}

/// The filter of a client that listens to a task, and to one that does not exist.
fn filter(task: &Value) -> Value {
    json!({"taskIds": [task, "unknown"]})
}

#[tokio::test]
async fn notifications_over_http_and_stdio() {
    let server = Server::start("mcp-conformance", &[]).await;
    for server in [Some(&server), None] {
        let (client, mut seen) = connected(server, EraChoice::Modern, capabilities()).await;
        let arguments = json!({"seconds": 1, "label": "sum"});
        let mut caller = Client::Remote(client.clone());
        let task = caller.call("slow_compute", arguments).await["taskId"].clone();
        let listening = client.listen(&filter(&task)).await.unwrap();
        let following = tokio::spawn(listening.closed());
        loop {
            let (method, params) = seen.recv().await.unwrap();
            assert_eq!(method, "notifications/tasks");
            assert_eq!(params["taskId"], task);
            assert!(params["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number());
            if params["status"] == "completed" {
                assert_eq!(text(&params["result"]), "sum: 1 s");
                break;
            }
        }
        following.abort();
    }
}

#[tokio::test]
async fn acknowledgement_names_the_tasks_that_exist() {
    let mut peer = StdioServer::start(&[]);
    let with_meta = |method: &str, mut params: Value| {
        params["_meta"] = modern_meta(capabilities());
        rpc(method, params).to_string()
    };
    let slow = json!({"name": "slow_compute", "arguments": {"seconds": 600}});
    peer.send(with_meta("tools/call", slow)).await;
    let task = peer.message().await["result"]["taskId"].clone();
    let listen = json!({"notifications": filter(&task)});
    peer.send(with_meta("subscriptions/listen", listen)).await;
    let acknowledged = peer.message().await;
    let method = "notifications/subscriptions/acknowledged";
    assert_eq!(acknowledged["method"], method, "{acknowledged}");
    let tasks = &acknowledged["params"]["notifications"]["taskIds"];
    assert_eq!(*tasks, json!([task]));
}
