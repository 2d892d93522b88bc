//! The tasks of 2025-11-25.

use mcp_client::EraChoice;
use serde_json::{Value, json};

use super::client::{Client, Memory};
use super::{capabilities, text};
use crate::client::connected;
use crate::harness::{Server, initialize, rpc};
use crate::stdio::StdioServer;

const REVISION: &str = "2025-11-25";
const RELATED: &str = "io.modelcontextprotocol/related-task";

#[tokio::test]
async fn lifecycle_over_http_and_stdio() {
    let server = Server::start("mcp-conformance", &[]).await;
    for server in [Some(&server), None] {
        let client = &mut Client::remote(server, EraChoice::Legacy).await;
        finishes(client).await;
        fails(client).await;
        is_cancelled(client).await;
        refuses(client).await;
    }
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
    let arguments = json!({"seconds": 1, "label": "sum"});
    let task = client.start("slow_compute", arguments).await;
    assert_has!(task, {"status": "working", "ttl": 60_000});
    assert!(task["pollInterval"].is_u64());
    assert_eq!(task.get("ttlMs"), None);
    let id = &task["taskId"];
    // Waits for the end.
    let result = client.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(text(&result), "sum: 1 s");
    assert_eq!(result["_meta"][RELATED]["taskId"], *id);
    assert_eq!(result.get("resultType"), None);
    let ended = client.result("tasks/get", json!({"taskId": id})).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!((ended.get("result"), ended.get("_meta")), (None, None));
    let listed = client.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"], json!([ended]));
}

/// In this revision the task of a failed tool has failed.
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
    client.refused(-32603, "tasks/result", id).await;

    // The task checks the arguments, so that the model sees the error as its result.
    let wrong = json!({"seconds": "many"});
    let task = client.start("slow_compute", wrong).await;
    let ended = client.until(&task["taskId"], "failed").await;
    assert!(ended["statusMessage"].as_str().unwrap().contains("seconds"));
}

async fn is_cancelled(client: &mut Client) {
    let task = client.start("slow_compute", json!({"seconds": 600})).await;
    let id = json!({"taskId": task["taskId"]});
    let cancelled = client.result("tasks/cancel", id.clone()).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["taskId"], task["taskId"]);
    // The second time is an error.
    client.refused(-32602, "tasks/cancel", id.clone()).await;
    let result = client.result("tasks/result", id).await;
    assert_eq!(result["isError"], true);
}

async fn refuses(client: &mut Client) {
    let task =
        |name: &str, task: Value| json!({"name": name, "arguments": {"name": "x"}, "task": task});
    let never = task("greet", json!({}));
    client.refused(-32601, "tools/call", never).await;
    let required = json!({"name": "failing_job", "arguments": {}});
    client.refused(-32601, "tools/call", required).await;
    for wrong in [json!(1), json!([]), json!({"ttl": -1}), json!({"ttl": "1"})] {
        let params = task("slow_compute", wrong);
        client.refused(-32602, "tools/call", params).await;
    }
    let unknown = json!({"taskId": "x"});
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        client.refused(-32602, method, unknown.clone()).await;
    }
    let cursor = json!({"cursor": "x"});
    client.refused(-32602, "tasks/list", cursor).await;
    client.refused(-32601, "tasks/update", unknown).await;
}

#[tokio::test]
async fn only_2025_11_25_declares_tasks() {
    for (revision, knows) in [("2025-06-18", false), (REVISION, true)] {
        let mut client = Client::legacy(Memory::new(), revision).await;
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
            // Older revisions ignore `task`.
            let params = json!({"name": "greet", "arguments": {"name": "Ada"}, "task": {}});
            let result = client.result("tools/call", params).await;
            assert_eq!(text(&result), "Hello, Ada!");
            let get = json!({"taskId": "x"});
            client.refused(-32601, "tasks/get", get).await;
        }
    }
}

/// The questions arrive over the request that waits for the result.
#[tokio::test]
async fn questions_over_http_and_stdio() {
    let server = Server::start("mcp-conformance", &[]).await;
    for server in [Some(&server), None] {
        let (client, mut seen) = connected(server, EraChoice::Legacy, capabilities()).await;
        let client = &mut Client::Remote(client);
        let task = client.start("multi_input", json!({})).await["taskId"].clone();
        client.until(&task, "input_required").await;
        let id = json!({"taskId": task});
        let result = client.result("tasks/result", id).await;
        assert_eq!(text(&result), "Hello, Ada Ada!");
        for _ in 0..2 {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "elicitation/create");
            assert_eq!(params["_meta"][RELATED]["taskId"], task);
        }
    }
}

/// The progress token of the request is valid as long as its task runs.
#[tokio::test]
async fn progress_names_its_task() {
    let mut peer = StdioServer::start(&[]);
    peer.ask_line(&initialize(REVISION).to_string()).await;
    let params = json!({"name": "slow_compute", "arguments": {"seconds": 2}, "task": {},
        "_meta": {"progressToken": "t"}});
    peer.send(rpc("tools/call", params).to_string()).await;
    let (mut created, mut progress) = (Value::Null, Vec::new());
    while progress.len() < 2 || created.is_null() {
        let message = peer.message().await;
        if message["id"] == 1 {
            created = message["result"]["task"].clone();
        } else {
            assert_eq!(message["method"], "notifications/progress");
            progress.push(message["params"].clone());
        }
    }
    for (step, params) in progress.iter().enumerate() {
        assert_has!(params, {"progressToken": "t", "progress": step as f64});
        assert_eq!(params["_meta"][RELATED]["taskId"], created["taskId"]);
    }
}
