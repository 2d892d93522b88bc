//! Limits, lifetime and visibility of tasks.

use std::time::Duration;

use mcp_client::{ClientInfo, Endpoint, EraChoice};
use serde_json::{Value, json};

use super::client::{Client, Memory};
use super::{accept, capabilities};
use crate::auth::file;
use crate::harness::{Server, client_builder};

#[tokio::test(start_paused = true)]
async fn expired_task_is_removed() {
    let mut client = Client::modern(Memory::new());
    let done = client.call("slow_compute", json!({"seconds": 1})).await;
    let day = json!({"seconds": 86_400});
    let endless = client.call("slow_compute", day).await;
    let get = |task: &Value| json!({"taskId": task["taskId"]});
    tokio::time::sleep(Duration::from_secs(3599)).await;
    let found = client.result("tasks/get", get(&done)).await;
    assert_eq!(found["status"], "completed");
    let found = client.result("tasks/get", get(&endless)).await;
    assert_eq!(found["status"], "working");
    tokio::time::sleep(Duration::from_secs(2)).await;
    for task in [done, endless] {
        client.refused(-32602, "tasks/get", get(&task)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_of_2025_11_25_chooses_the_lifetime_up_to_a_day() {
    let memory = Memory::new().as_caller(Some("alice"));
    let mut client = Client::legacy(memory, "2025-11-25").await;
    for (asked, kept) in [
        (json!(0), 1),
        (json!(5000), 5),
        (Value::Null, 3600),
        (json!(u64::MAX), 86_400),
    ] {
        let arguments = json!({"seconds": 1});
        let params =
            json!({"name": "slow_compute", "arguments": arguments, "task": {"ttl": asked}});
        let task = client.result("tools/call", params).await["task"].clone();
        assert_eq!(task["ttl"], kept * 1000);
        let get = json!({"taskId": task["taskId"]});
        tokio::time::sleep(Duration::from_secs(kept - 1)).await;
        client.result("tasks/get", get.clone()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        client.refused(-32602, "tasks/get", get).await;
    }
}

#[tokio::test(start_paused = true)]
async fn running_tasks_are_limited_per_caller() {
    let memory = Memory::new();
    let mut alice = Client::modern(memory.as_caller(Some("alice")));
    let slow = json!({"name": "slow_compute", "arguments": {"seconds": 3600}});
    let mut first = Value::Null;
    for _ in 0..100 {
        first = alice.result("tools/call", slow.clone()).await;
    }
    alice.refused(-32603, "tools/call", slow.clone()).await;
    let mut bob = Client::modern(memory.as_caller(Some("bob")));
    bob.result("tools/call", slow.clone()).await;
    let task = json!({"taskId": first["taskId"]});
    alice.result("tasks/cancel", task).await;
    alice.result("tools/call", slow).await;
}

/// The server is a separate process, so that its memory can be measured.
#[tokio::test]
async fn ten_thousand_tasks_leave_a_thousand() {
    let server = Server::start("mcp-conformance", &[]).await;
    let mut client = Client::remote(Some(&server), EraChoice::Modern).await;
    let mut params = json!({"name": "test_tool_with_task", "arguments": {}});
    let asked = client.result("tools/call", params.clone()).await;
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"user_name": accept(json!({"name": "x".repeat(1000)}))});
    let first = client.result("tools/call", params.clone()).await;
    let mut last = Value::Null;
    let mut resident = 0;
    for count in 1..=10_000 {
        last = client.result("tools/call", params.clone()).await;
        assert_eq!(last["resultType"], "task");
        if count == 2000 {
            resident = server.memory_kib();
        }
    }
    client.until(&last["taskId"], "completed").await;
    let first = json!({"taskId": first["taskId"]});
    client.refused(-32602, "tasks/get", first).await;
    let grown = server.memory_kib().saturating_sub(resident);
    assert!(grown < 2048, "{grown} KiB more than with 2,000 tasks");
}

#[tokio::test]
async fn other_callers_see_no_task() {
    let memory = Memory::new();
    let mut alice = Client::modern(memory.as_caller(Some("alice")));
    let file = json!({"filename": "a.txt"});
    let task = alice.call("confirm_delete", file).await;
    let id = json!({"taskId": task["taskId"]});
    let answer = json!({
        "taskId": task["taskId"],
        "inputResponses": {"confirm": accept(json!({"confirm": true}))},
    });
    for other in [Some("bob"), None] {
        let mut other = Client::modern(memory.as_caller(other));
        for method in ["tasks/get", "tasks/cancel"] {
            other.refused(-32602, method, id.clone()).await;
        }
        other.refused(-32602, "tasks/update", answer.clone()).await;
    }
    let mut bob = Client::legacy(memory.as_caller(Some("bob")), "2025-11-25").await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        bob.refused(-32602, method, id.clone()).await;
    }
    let listed = bob.result("tasks/list", json!({})).await;
    assert_eq!(listed, json!({"tasks": []}));
    // The owner still sees it, in both eras.
    alice.until(&task["taskId"], "input_required").await;
    let mut alice = Client::legacy(memory.as_caller(Some("alice")), "2025-11-25").await;
    let listed = alice.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"][0]["taskId"], task["taskId"]);
}

/// Over HTTP the token identifies the caller, or the session if there is no token.
#[tokio::test]
async fn over_http_tasks_belong_to_tokens_or_sessions() {
    let slow = json!({"name": "slow_compute", "arguments": {"seconds": 600}, "task": {}});
    let tokens = file("alice secret-of-alice-16-chars\nbob secret-of-bob-16-chars\n");
    let env = [("MCP_TOKEN_FILE", tokens.to_str().unwrap())];
    let server = Server::start("mcp-conformance", &env).await;
    let with_token = async |token: &str| {
        let endpoint = Endpoint::new(&server.url).unwrap().bearer(token).unwrap();
        let builder = client_builder().era(EraChoice::Modern);
        let client = builder.http(endpoint).unwrap();
        let info = ClientInfo::new("tests", "1").with_capabilities(capabilities());
        client.connect(&info).await.unwrap();
        Client::Remote(client)
    };
    let mut alice = with_token("secret-of-alice-16-chars").await;
    let task = alice.result("tools/call", slow.clone()).await;
    let id = json!({"taskId": task["taskId"]});
    let mut bob = with_token("secret-of-bob-16-chars").await;
    bob.refused(-32602, "tasks/get", id.clone()).await;
    alice.result("tasks/get", id).await;

    let server = Server::start("mcp-conformance", &[]).await;
    let mut one = Client::remote(Some(&server), EraChoice::Legacy).await;
    let mut two = Client::remote(Some(&server), EraChoice::Legacy).await;
    let task = one.result("tools/call", slow).await["task"].clone();
    let id = json!({"taskId": task["taskId"]});
    two.refused(-32602, "tasks/get", id.clone()).await;
    let listed = two.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"], json!([]));
    one.result("tasks/get", id).await;
}

/// The tool ignores the cancellation; its task is cancelled all the same.
#[tokio::test(start_paused = true)]
async fn cancelled_task_stays_cancelled() {
    let mut client = Client::modern(Memory::new());
    let file = json!({"filename": "a.txt"});
    let task = client.call("confirm_delete", file).await;
    let id = json!({"taskId": task["taskId"]});
    client.until(&task["taskId"], "input_required").await;
    client.result("tasks/cancel", id.clone()).await;
    for _ in 0..2 {
        let found = client.result("tasks/get", id.clone()).await;
        assert_eq!(found["status"], "cancelled");
        for absent in ["inputRequests", "result"] {
            assert_eq!(found.get(absent), None);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_forgotten_caller_are_removed() {
    let memory = Memory::new();
    let mut alice = Client::modern(memory.as_caller(Some("alice")));
    let task = alice.call("slow_compute", json!({"seconds": 600})).await;
    memory.server.forget("bob");
    let id = json!({"taskId": task["taskId"]});
    alice.result("tasks/get", id.clone()).await;
    memory.server.forget("alice");
    alice.refused(-32602, "tasks/get", id).await;
}
