//! Principals: tasks, directories and keys belong to the bearer token that created them.

use mcp_client::Client;
use serde_json::json;
use uuid::Uuid;

use super::workspaces::TestDirectory;
use super::{NAME, assert_error, call, call_with_id, env_with};
use crate::harness::Server;
use crate::harness::real::{OpenHands, openhands};

pub(super) const ALICE: &str = "token-of-alice-16-chars";
pub(super) const BOB: &str = "token-of-bob-16-chars";

/// Writes the tokens of two principals, and returns the file.
pub(super) fn tokens(place: &TestDirectory, alice: &str) -> String {
    let file = place.0.join("tokens");
    std::fs::write(&file, format!("{alice} {ALICE}\nbob {BOB}\n")).unwrap();
    file.into_os_string().into_string().unwrap()
}

/// A server with two bearer tokens, and a client with each. `alice` is the name of the first.
pub(super) async fn two_principals(
    real: &OpenHands,
    alice: &str,
    share: &str,
) -> (Server, Client, Client) {
    let place = TestDirectory::new();
    let more = [
        ("MCP_TOKEN_FILE", &*tokens(&place, alice)),
        ("OPENHANDS_SHARE_TASKS", share),
    ];
    let server = Server::start(NAME, &env_with(real, &more)).await;
    let clients = (
        server.client_with_token(ALICE).await,
        server.client_with_token(BOB).await,
    );
    (server, clients.0, clients.1)
}

#[tokio::test]
async fn principals_do_not_see_each_others_tasks() {
    let Some(real) = openhands() else { return };
    let (_server, alice, bob) = two_principals(&real, "alice", "false").await;
    let key = Uuid::new_v4().to_string();
    let task = |secret: &str| {
        json!({"task": format!("RUN: echo {secret} | tee s.txt"),
        "workspace": "shared-name", "idempotency_key": key})
    };
    let hers = call(&alice, "run_task", task("of alice")).await;
    let id = &hers["task_id"];
    // The same key and the same name of a directory are his own.
    let his = call(&bob, "run_task", task("of bob")).await;
    assert_ne!(his["task_id"], *id);
    assert_eq!(his["last_output"], "of bob");
    let again = call!(alice, "run_task", {"task": "RUN: cat s.txt", "workspace": "shared-name"});
    assert_eq!(again["last_output"], "of alice");
    for tool in "get_task_status get_task_result get_task_changes get_task_events wait_task \
                 cancel_task resume_task delete_task"
        .split_whitespace()
    {
        assert_error!(bob, tool, {"task_id": id}, "There is no task");
    }
    assert_error!(bob, "publish_task", {"task_id": id, "title": "t"}, "There is no task");
    assert_error!(bob, "send_message", {"task_id": id, "message": "m"}, "There is no task");
    for directory in [id.as_str().unwrap(), ".mcp-principals"] {
        let reads = json!({"task": "RUN: cat s.txt; ls -A; pwd", "workspace": directory});
        let result = bob.call_tool("run_task", &reads).await.unwrap();
        assert!(!result.text().contains("of alice"), "{}", result.text());
    }
    let list = call!(bob, "list_tasks", {"limit": 50}).to_string();
    assert!(list.contains(his["task_id"].as_str().unwrap()));
    assert!(!list.contains(id.as_str().unwrap()), "{list}");
    // Unless the operator says so.
    let (_server, _, bob) = two_principals(&real, "alice", "true").await;
    let seen = call_with_id(&bob, "get_task_result", id).await;
    assert_eq!(seen["last_output"], "of alice");
}
