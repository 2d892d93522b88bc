//! What tasks cost, how long they are kept, and who sees them.

use std::time::Duration;

use serde_json::{Value, json};

use super::accept;
use super::client::{Client, Over};

#[tokio::test(start_paused = true)]
async fn a_task_is_forgotten_when_its_time_is_over() {
    let mut client = Client::modern(Over::memory());
    let done = client.call("slow_compute", json!({"seconds": 1})).await;
    let endless = client
        .call("slow_compute", json!({"seconds": 86_400}))
        .await;
    let get = |task: &Value| json!({"taskId": task["taskId"]});
    tokio::time::sleep(Duration::from_secs(3599)).await;
    let found = client.result("tasks/get", get(&done)).await;
    assert_eq!(found["status"], "completed");
    let found = client.result("tasks/get", get(&endless)).await;
    assert_eq!(found["status"], "working");
    tokio::time::sleep(Duration::from_secs(2)).await;
    for task in [done, endless] {
        assert_eq!(client.refused("tasks/get", get(&task)).await, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_of_2025_11_25_says_how_long_up_to_a_day() {
    let over = Over::memory().of(Some("alice"));
    let mut client = Client::handshake(over, "2025-11-25").await;
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
        assert_eq!(client.refused("tasks/get", get).await, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn one_caller_cannot_run_everything() {
    let over = Over::memory();
    let mut alice = Client::modern(over.of(Some("alice")));
    let slow = json!({"name": "slow_compute", "arguments": {"seconds": 3600}});
    let mut first = Value::Null;
    for _ in 0..100 {
        first = alice.result("tools/call", slow.clone()).await;
    }
    assert_eq!(alice.refused("tools/call", slow.clone()).await, -32603);
    Client::modern(over.of(Some("bob")))
        .result("tools/call", slow.clone())
        .await;
    let task = json!({"taskId": first["taskId"]});
    alice.result("tasks/cancel", task).await;
    alice.result("tools/call", slow).await;
}

/// The server is a process of its own, so that its memory can be seen.
#[tokio::test]
async fn ten_thousand_tasks_leave_a_thousand() {
    let mut client = Client::modern(Over::http().await);
    let params = json!({
        "name": "test_tool_with_task",
        "arguments": {},
        "inputResponses": {"user_name": accept(json!({"name": "x".repeat(1000)}))},
    });
    let first = client.result("tools/call", params.clone()).await;
    let mut last = Value::Null;
    let mut resident = 0;
    for count in 1..=10_000 {
        last = client.result("tools/call", params.clone()).await;
        assert_eq!(last["resultType"], "task");
        if count == 2000 {
            resident = memory(&client);
        }
    }
    client.until(&last["taskId"], "completed").await;
    let first = json!({"taskId": first["taskId"]});
    assert_eq!(client.refused("tasks/get", first).await, -32602);
    let grown = memory(&client).saturating_sub(resident);
    assert!(grown < 2048, "{grown} KiB more than with 2,000 tasks");
}

/// KiB of the server that are resident.
fn memory(client: &Client) -> u64 {
    let Over::Http { server, .. } = &client.over else {
        unreachable!("it was just made so");
    };
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.unwrap().split_whitespace().next();
    words.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_foreign_caller_sees_nothing() {
    let over = Over::memory();
    let mut alice = Client::modern(over.of(Some("alice")));
    let task = alice
        .call("confirm_delete", json!({"filename": "a.txt"}))
        .await;
    let id = json!({"taskId": task["taskId"]});
    let answer = json!({
        "taskId": task["taskId"],
        "inputResponses": {"confirm": accept(json!({"confirm": true}))},
    });
    for other in [Some("bob"), None] {
        let mut other = Client::modern(over.of(other));
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(other.refused(method, id.clone()).await, -32602);
        }
        assert_eq!(other.refused("tasks/update", answer.clone()).await, -32602);
    }
    let mut bob = Client::handshake(over.of(Some("bob")), "2025-11-25").await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(bob.refused(method, id.clone()).await, -32602);
    }
    assert_eq!(
        bob.result("tasks/list", json!({})).await,
        json!({"tasks": []})
    );
    // It is still hers, in both eras.
    alice.until(&task["taskId"], "input_required").await;
    let mut alice = Client::handshake(over.of(Some("alice")), "2025-11-25").await;
    let listed = alice.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"][0]["taskId"], task["taskId"]);
}

/// Over HTTP it is the token that counts, and without one the session.
#[tokio::test]
async fn over_http_tasks_belong_to_tokens_or_sessions() {
    let slow = json!({"name": "slow_compute", "arguments": {"seconds": 600}, "task": {}});
    let tokens = write_tokens();
    let env = [("MCP_TOKEN_FILE", tokens.to_str().unwrap())];
    let server = crate::harness::Server::start("mcp-conformance", &env).await;
    let over = Over::Http {
        server: std::sync::Arc::new(server),
        headers: Vec::new(),
    };
    let mut alice = Client::modern(over.of(Some("secret-of-alice")));
    let task = alice.result("tools/call", slow.clone()).await;
    let id = json!({"taskId": task["taskId"]});
    let mut bob = Client::modern(over.of(Some("secret-of-bob")));
    assert_eq!(bob.refused("tasks/get", id.clone()).await, -32602);
    alice.result("tasks/get", id).await;
    std::fs::remove_file(tokens).unwrap();

    let over = Over::http().await;
    let mut one = Client::handshake(over.of(None), "2025-11-25").await;
    let mut two = Client::handshake(over.of(None), "2025-11-25").await;
    let task = one.result("tools/call", slow).await["task"].clone();
    let id = json!({"taskId": task["taskId"]});
    assert_eq!(two.refused("tasks/get", id.clone()).await, -32602);
    assert_eq!(
        two.result("tasks/list", json!({})).await["tasks"],
        json!([])
    );
    one.result("tasks/get", id).await;
}

fn write_tokens() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("mcp-tokens-{}", uuid::Uuid::new_v4()));
    std::fs::write(&path, "alice secret-of-alice\nbob secret-of-bob\n").unwrap();
    path
}

/// A tool that does not listen is left behind, its task is not.
#[tokio::test(start_paused = true)]
async fn a_cancelled_task_stays_cancelled() {
    let mut client = Client::modern(Over::memory());
    let task = client
        .call("confirm_delete", json!({"filename": "a.txt"}))
        .await;
    let id = json!({"taskId": task["taskId"]});
    client.until(&task["taskId"], "input_required").await;
    client.result("tasks/cancel", id.clone()).await;
    for _ in 0..2 {
        let found = client.result("tasks/get", id.clone()).await;
        assert_eq!(found["status"], "cancelled");
        assert_eq!(found.get("inputRequests"), None);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// What nobody can ask for any more is not kept.
#[tokio::test(start_paused = true)]
async fn whoever_leaves_for_good_leaves_nothing() {
    let over = Over::memory();
    let mut alice = Client::modern(over.of(Some("alice")));
    let task = alice.call("slow_compute", json!({"seconds": 600})).await;
    let Over::Memory { server, .. } = &over else {
        unreachable!("it was just made so");
    };
    server.forget("bob");
    let id = json!({"taskId": task["taskId"]});
    alice.result("tasks/get", id.clone()).await;
    server.forget("alice");
    assert_eq!(alice.refused("tasks/get", id).await, -32602);
}
