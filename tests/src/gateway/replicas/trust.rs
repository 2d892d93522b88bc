//! Requests that one gateway takes from another, and those that it refuses.

use serde_json::json;

use super::env::{ReplicaGroup, Stream, call, request};
use crate::gateway::env::{Folder, Gateway};
use crate::harness::{assert_contains, http_client};

#[tokio::test]
async fn only_a_replica_can_forward() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let url = &group.gateways[0].as_ref().unwrap().server.url;
    for ticket in ["", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let ping = request("ping", json!({})).to_string();
        let sent = http_client()
            .post(url)
            .header("mcp-hop", ticket)
            .header("content-type", "application/json")
            .body(ping)
            .send();
        assert_eq!(sent.await.unwrap().status(), 401, "{ticket}");
    }
}

/// A batch is answered where it arrives: another replica would run its calls again.
#[tokio::test]
async fn calls_of_a_batch_run_once() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session_of(0, "2025-03-26").await;
    let uri = json!({"uri": "test://watched-resource"});
    let other = [
        ("logging/setLevel", json!({"level": "error"})),
        ("resources/subscribe", uri),
    ];
    // Not at the home of the session.
    let at = 1;
    for (method, params) in other {
        let before = group.started(at).await;
        let mut second = request(method, params);
        second["id"] = json!(8);
        let batch = json!([call("b__slow", json!({"steps": 1, "step": 0})), second]);
        let mut stream = Stream::new(group.post(at, &session, &batch).await);
        let answers = stream.batch().await;
        let answers = answers.as_array().unwrap();
        let answer = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert!(answer(7)["result"].is_object(), "{answers:?}");
        match method {
            "logging/setLevel" => assert!(answer(8)["result"].is_object(), "{answers:?}"),
            _ => assert!(answer(8)["error"].is_object(), "{answers:?}"),
        }
        assert_eq!(group.started(at).await, before + 1, "{method}");
    }
    // The level has come to the others nevertheless.
    for at in 0..3 {
        let logging = call("b__test_tool_with_logging", json!({}));
        let reply = group.post(at, &session, &logging).await;
        let reply = reply.text().await.unwrap();
        assert!(!reply.contains("notifications/message"), "{at}: {reply}");
    }
}

/// A replica that needs no token refuses what others forward for the owner of one. It is alive nevertheless.
#[tokio::test]
async fn replica_with_other_tokens_refuses_and_stays_in_use() {
    let Some(group) = ReplicaGroup::start_with(&[], 2).await else {
        return;
    };
    let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 60}});
    let made = group.modern(2, "tools/call", compute).await;
    let id = json!({"taskId": made["result"]["taskId"]});
    for at in [0, 1, 0, 1] {
        let found = group.modern(at, "tasks/get", id.clone()).await;
        assert_contains(&found["error"], "another replica has to answer this");
    }
    let found = group.modern(2, "tasks/get", id).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
}

#[tokio::test]
async fn gateway_on_postgres_is_no_replica_unless_it_is_asked() {
    let Ok(store) = std::env::var("MCP_TEST_POSTGRES_URL") else {
        return;
    };
    let gateway = Gateway::start(Folder::new(), "", &["--events", &store]).await;
    assert_eq!(gateway.status().await.get("replicas"), None);
    let ping = request("ping", json!({})).to_string();
    let sent = http_client()
        .post(&gateway.server.url)
        .header("mcp-hop", "x")
        .header("content-type", "application/json")
        .body(ping);
    assert_eq!(sent.send().await.unwrap().status(), 200);
}
