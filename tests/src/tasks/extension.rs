//! `io.modelcontextprotocol/tasks`.

use serde_json::{Value, json};

use super::client::{Client, Over, borrowed};
use super::{accept, text};

#[tokio::test]
async fn lifecycle_over_http_and_stdio() {
    for over in [Over::http().await, Over::stdio()] {
        let client = &mut Client::modern(over);
        finishes(client).await;
        fails(client).await;
        is_cancelled(client).await;
        asks(client).await;
    }
}

async fn finishes(client: &mut Client) {
    let arguments = json!({"seconds": 1, "label": "sum"});
    let created = client.call("slow_compute", arguments).await;
    assert_has!(created, {"resultType": "task", "status": "working", "statusMessage": "0 of 1 s",
        "ttlMs": 3_600_000});
    assert!(created["pollIntervalMs"].as_u64() > Some(0), "{created}");
    let id = &created["taskId"];
    assert_eq!(id.as_str().unwrap().len(), 32);
    let absent = "result error inputRequests requestState ttl pollInterval";
    for absent in absent.split(' ') {
        assert_eq!(created.get(absent), None);
    }
    let ended = client.until(id, "completed").await;
    assert_eq!(ended["resultType"], "complete");
    assert_eq!(ended["createdAt"], created["createdAt"]);
    assert_eq!(text(&ended["result"]), "sum: 1 s");
    assert_eq!(ended["result"].get("_meta"), None);
    // An ended task does not change; to cancel it is not an error.
    let get = json!({"taskId": id});
    let acknowledged = client.result("tasks/cancel", get.clone()).await;
    assert_eq!(acknowledged["resultType"], "complete");
    assert_eq!(client.result("tasks/get", get).await, ended);
}

/// A failed tool has a result, a tool that panics has none.
async fn fails(client: &mut Client) {
    let created = client.call("failing_job", json!({})).await;
    let ended = client.until(&created["taskId"], "completed").await;
    assert_eq!(ended["result"]["isError"], true);
    assert_eq!(ended["statusMessage"], text(&ended["result"]));

    let created = client.call("protocol_error_job", json!({})).await;
    let ended = client.until(&created["taskId"], "failed").await;
    assert_eq!(ended["error"]["code"], -32603);
    assert_eq!(ended["statusMessage"], ended["error"]["message"]);
    assert_eq!(ended.get("result"), None);
}

async fn is_cancelled(client: &mut Client) {
    let created = client.call("slow_compute", json!({"seconds": 600})).await;
    let id = json!({"taskId": created["taskId"]});
    let acknowledged = client.result("tasks/cancel", id.clone()).await;
    assert_eq!(acknowledged["resultType"], "complete");
    assert_eq!(acknowledged.get("taskId"), None);
    let ended = client.result("tasks/get", id).await;
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(ended.get("result"), None);
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
    let asking = client.result("tasks/get", json!({"taskId": id})).await;
    assert_eq!(asking["status"], "input_required");
    assert_eq!(asking["inputRequests"].as_object().unwrap().len(), 1);
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

/// A tool that asks before it waits asks before there is a task.
#[tokio::test]
async fn first_questions_come_before_the_task() {
    let mut client = Client::modern(Over::memory());
    let asked = client.call("test_tool_with_task", json!({})).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked.get("taskId"), None);
    let params = json!({
        "name": "test_tool_with_task",
        "arguments": {},
        "inputResponses": {"user_name": accept(json!({"name": "Ada"}))},
        "requestState": asked["requestState"],
    });
    let created = client.result("tools/call", params).await;
    assert_eq!(created["resultType"], "task");
    let ended = client.until(&created["taskId"], "completed").await;
    assert_eq!(text(&ended["result"]), "Hello, Ada!");
}

#[tokio::test]
async fn immediate_result_is_no_task() {
    let mut client = Client::modern(Over::memory());
    let greeted = client.call("greet", json!({"name": "Ada"})).await;
    assert_eq!(greeted["resultType"], "complete");
    assert_eq!(text(&greeted), "Hello, Ada!");
    let computed = client.call("slow_compute", json!({"seconds": 0})).await;
    assert_eq!(computed["resultType"], "complete");
    let wrong = json!({"seconds": "many"});
    let refused = client.call("slow_compute", wrong).await;
    assert_has!(refused, {"resultType": "complete", "isError": true});
}

#[tokio::test]
async fn client_without_the_extension_gets_no_task() {
    for over in [Over::http().await, Over::stdio()] {
        let mut client = Client::modern(over).declaring(json!({}));
        let computed = client.call("slow_compute", json!({"seconds": 1})).await;
        assert_eq!(computed["resultType"], "complete");
        assert_eq!(text(&computed), "slow_compute: 1 s");
        let required = json!({"name": "failing_job", "arguments": {}});
        let answer = client.ask("tools/call", required).await;
        let missing = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(answer["error"]["code"], -32021, "{answer}");
        assert_eq!(answer["error"]["data"]["requiredCapabilities"], missing);
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({"taskId": "x", "inputResponses": {}});
            client.refused(-32021, method, params).await;
        }
        let filter = filter(&json!("x"));
        client.refused(-32021, "subscriptions/listen", filter).await;
    }
}

/// The error is the one that the request would have got.
#[tokio::test]
async fn missing_capability_fails_the_task() {
    let only_tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = Client::modern(Over::memory()).declaring(only_tasks);
    let created = client.call("multi_input", json!({})).await;
    let ended = client.until(&created["taskId"], "failed").await;
    assert_eq!(ended["error"]["code"], -32021);
    let missing = json!({"elicitation": {}});
    assert_eq!(ended["error"]["data"]["requiredCapabilities"], missing);
}

#[tokio::test]
async fn ids_methods_and_headers_are_checked() {
    let mut client = Client::modern(Over::http().await);
    for id in [json!("0".repeat(32)), json!(""), json!(7), Value::Null] {
        for method in ["tasks/get", "tasks/cancel"] {
            client.refused(-32602, method, json!({"taskId": id})).await;
        }
    }
    client.refused(-32602, "tasks/get", json!({})).await;
    let discovered = client.result("server/discover", json!({})).await;
    let extensions = json!({"io.modelcontextprotocol/tasks": {}});
    assert_eq!(discovered["capabilities"]["extensions"], extensions);
    assert_eq!(discovered["capabilities"].get("tasks"), None);
    let listed = client.result("tools/list", json!({})).await;
    assert!(!listed.to_string().contains("execution"));

    // Only 2025-11-25 has these two methods.
    for method in ["tasks/result", "tasks/list"] {
        let (_, frame) = client.request(method, json!({"taskId": "x"}));
        let headers = client.headers(&frame);
        check(&client, &headers, &frame, 404, -32601).await;
    }
    // A proxy may have routed the request by the header, so it must match the body.
    let (_, frame) = client.request("tasks/get", json!({"taskId": "x"}));
    for name in [None, Some("y")] {
        let mut headers = client.headers(&frame);
        headers.retain(|(header, _)| *header != "mcp-name");
        headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
        check(&client, &headers, &frame, 400, -32020).await;
    }
}

async fn check(client: &Client, headers: &[(&str, String)], frame: &Value, status: u16, code: i32) {
    let headers = borrowed(headers);
    let reply = client.server().post_with(&headers, frame.to_string()).await;
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.json()["error"]["code"], code, "{reply:?}");
}

#[tokio::test]
async fn notifications_over_http_and_stdio() {
    for over in [Over::http().await, Over::stdio()] {
        let mut client = Client::modern(over);
        let arguments = json!({"seconds": 1, "label": "sum"});
        let task = client.call("slow_compute", arguments).await["taskId"].clone();
        let (id, frame) = client.request("subscriptions/listen", filter(&task));
        client.open(&frame).await;
        acknowledged(&client.next().await, id, &task);
        while !has_ended(&client.next().await, id, &task) {}
    }
}

fn filter(task: &Value) -> Value {
    json!({"notifications": {"taskIds": [task, "unknown"]}})
}

fn acknowledged(message: &Value, id: u64, task: &Value) {
    let params = params(message, "notifications/subscriptions/acknowledged", id);
    assert_eq!(params["notifications"]["taskIds"], json!([task]));
}

fn has_ended(message: &Value, id: u64, task: &Value) -> bool {
    let params = params(message, "notifications/tasks", id);
    assert_eq!(params["taskId"], *task);
    let has_ended = params["status"] == "completed";
    if has_ended {
        assert_eq!(text(&params["result"]), "sum: 1 s");
    }
    has_ended
}

/// The parameters of a notification of the subscription `id`.
fn params<'a>(message: &'a Value, method: &str, id: u64) -> &'a Value {
    let params = &message["params"];
    assert_eq!(message["method"], method);
    let subscription = &params["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*subscription, id);
    params
}
