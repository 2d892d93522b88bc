//! The tasks of 2025-11-25.

use serde_json::{Value, json};

use super::client::{Client, Over, borrowed};
use super::{accept, text};
use crate::harness::http_client;

const REVISION: &str = "2025-11-25";
const RELATED: &str = "io.modelcontextprotocol/related-task";

#[tokio::test]
async fn over_http() {
    lifecycle(&mut Client::handshake(Over::http().await, REVISION).await).await;
}

#[tokio::test]
async fn over_stdio() {
    lifecycle(&mut Client::handshake(Over::stdio(), REVISION).await).await;
}

async fn lifecycle(client: &mut Client) {
    finishes(client).await;
    fails(client).await;
    is_cancelled(client).await;
    refuses(client).await;
}

impl Client {
    /// `tools/call` as a task.
    async fn start(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments, "task": {"ttl": 60_000}});
        let created = self.result("tools/call", params).await;
        assert_eq!(created.as_object().unwrap().len(), 1, "{created}");
        created["task"].clone()
    }
}

async fn finishes(client: &mut Client) {
    let task = client
        .start("slow_compute", json!({"seconds": 1, "label": "sum"}))
        .await;
    assert_has!(task, {"status": "working", "ttl": 60_000});
    assert!(task["pollInterval"].is_u64());
    assert_eq!(task.get("ttlMs"), None);
    let id = &task["taskId"];
    // It waits for the end.
    let result = client.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(text(&result), "sum: 1 s");
    assert_eq!(result["_meta"][RELATED]["taskId"], *id);
    assert_eq!(result.get("resultType"), None);
    let ended = client.result("tasks/get", json!({"taskId": id})).await;
    assert_eq!(
        (&ended["status"], ended.get("result")),
        (&json!("completed"), None)
    );
    assert_eq!(ended.get("_meta"), None);
    let listed = client.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"], json!([ended]));
}

/// Here a tool that fails has failed.
async fn fails(client: &mut Client) {
    let task = client.start("failing_job", json!({})).await;
    let ended = client.until(&task["taskId"], "failed").await;
    assert_eq!(ended["statusMessage"], "The job failed, as it always does.");
    let id = json!({"taskId": task["taskId"]});
    let result = client.result("tasks/result", id).await;
    assert_eq!(result["isError"], true);

    let task = client.start("protocol_error_job", json!({})).await;
    client.until(&task["taskId"], "failed").await;
    let id = json!({"taskId": task["taskId"]});
    assert_eq!(client.refused("tasks/result", id).await, -32603);

    // The arguments are looked at in the task: its result is what the model can mend.
    let task = client
        .start("slow_compute", json!({"seconds": "many"}))
        .await;
    let ended = client.until(&task["taskId"], "failed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("seconds"));
}

async fn is_cancelled(client: &mut Client) {
    let task = client.start("slow_compute", json!({"seconds": 600})).await;
    let id = json!({"taskId": task["taskId"]});
    let cancelled = client.result("tasks/cancel", id.clone()).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["taskId"], task["taskId"]);
    // Once is enough.
    assert_eq!(client.refused("tasks/cancel", id.clone()).await, -32602);
    let result = client.result("tasks/result", id).await;
    assert_eq!(result["isError"], true);
}

async fn refuses(client: &mut Client) {
    let task =
        |name: &str, task: Value| json!({"name": name, "arguments": {"name": "x"}, "task": task});
    assert_eq!(
        client.refused("tools/call", task("greet", json!({}))).await,
        -32601
    );
    let plain = json!({"name": "failing_job", "arguments": {}});
    assert_eq!(client.refused("tools/call", plain).await, -32601);
    for wrong in [json!(1), json!([]), json!({"ttl": -1}), json!({"ttl": "1"})] {
        assert_eq!(
            client
                .refused("tools/call", task("slow_compute", wrong))
                .await,
            -32602
        );
    }
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(client.refused(method, json!({"taskId": "x"})).await, -32602);
    }
    assert_eq!(
        client.refused("tasks/list", json!({"cursor": "x"})).await,
        -32602
    );
    assert_eq!(
        client.refused("tasks/update", json!({"taskId": "x"})).await,
        -32601
    );
}

#[tokio::test]
async fn it_is_declared_to_those_who_know_it() {
    for (revision, knows) in [("2025-06-18", false), (REVISION, true)] {
        let mut client = Client::handshake(Over::memory(), revision).await;
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {}});
        let agreed = client.result("initialize", params).await;
        let declared = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        let tasks = agreed["capabilities"].get("tasks");
        assert_eq!(tasks, Some(&declared).filter(|_| knows), "{revision}");
        let listed = client.result("tools/list", json!({})).await;
        for (tool, support) in [("slow_compute", "optional"), ("failing_job", "required")] {
            let tools = listed["tools"].as_array().unwrap();
            let tool = tools.iter().find(|found| found["name"] == tool).unwrap();
            let execution = json!({"taskSupport": support});
            assert_eq!(tool.get("execution"), Some(&execution).filter(|_| knows));
        }
        if !knows {
            // What an older revision does not know is not looked at.
            let params = json!({"name": "greet", "arguments": {"name": "Ada"}, "task": {}});
            assert_eq!(
                text(&client.result("tools/call", params).await),
                "Hello, Ada!"
            );
            assert_eq!(
                client.refused("tasks/get", json!({"taskId": "x"})).await,
                -32601
            );
        }
    }
}

/// A task asks on the way that waits for its result.
#[tokio::test]
async fn input_over_stdio() {
    let mut client = Client::handshake(Over::stdio(), REVISION).await;
    let task = client
        .start("confirm_delete", json!({"filename": "a.txt"}))
        .await;
    client.until(&task["taskId"], "input_required").await;
    let (id, frame) = client.request("tasks/result", json!({"taskId": task["taskId"]}));
    let line = client.over.line();
    line.send(&frame).await;
    let question = line.message().await;
    let answer = answer_to(&question, &task["taskId"]);
    line.send(&answer).await;
    let result = line.message().await;
    assert_eq!(result["id"], id);
    assert_eq!(text(&result["result"]), "a.txt is deleted.");
}

#[tokio::test]
async fn input_over_http() {
    let mut client = Client::handshake(Over::http().await, REVISION).await;
    let task = client
        .start("confirm_delete", json!({"filename": "a.txt"}))
        .await;
    client.until(&task["taskId"], "input_required").await;
    let (_, frame) = client.request("tasks/result", json!({"taskId": task["taskId"]}));
    let Over::Http { server, .. } = &client.over else {
        unreachable!("it was just made so");
    };
    let headers = client.headers(&frame);
    let mut request = http_client().post(&server.url).body(frame.to_string());
    for (name, value) in &headers {
        request = request.header(*name, value);
    }
    let accept = "application/json, text/event-stream";
    let request = request
        .header("content-type", "application/json")
        .header("accept", accept);
    let mut stream = request.send().await.unwrap();
    let mut events = String::new();
    while !events.contains("elicitation/create") {
        let chunk = stream.chunk().await.unwrap().expect("it asks");
        events.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let question = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back();
    let question: Value = serde_json::from_str(question.unwrap()).unwrap();
    let answer = answer_to(&question, &task["taskId"]).to_string();
    let reply = server.post_with(&borrowed(&headers), answer).await;
    assert_eq!(reply.status, 202);
    let rest = stream.text().await.unwrap();
    assert!(rest.contains("a.txt is deleted."), "{rest}");
}

fn answer_to(question: &Value, task: &Value) -> Value {
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"][RELATED]["taskId"], *task);
    let result = accept(json!({"confirm": true}));
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

/// The token of the request stays good for as long as its task runs.
#[tokio::test]
async fn progress_names_its_task() {
    let mut client = Client::handshake(Over::stdio(), REVISION).await;
    let (id, frame) = client.request(
        "tools/call",
        json!({
            "name": "slow_compute",
            "arguments": {"seconds": 2},
            "task": {},
            "_meta": {"progressToken": "t"},
        }),
    );
    let line = client.over.line();
    line.send(&frame).await;
    let (mut created, mut told) = (Value::Null, Vec::new());
    while told.len() < 2 {
        let message = line.message().await;
        if message["id"] == id {
            created = message["result"]["task"].clone();
        } else {
            assert_eq!(message["method"], "notifications/progress");
            told.push(message["params"].clone());
        }
    }
    for (step, told) in told.iter().enumerate() {
        assert_has!(told, {"progressToken": "t", "progress": step as f64});
        assert_eq!(told["_meta"][RELATED]["taskId"], created["taskId"]);
    }
}
