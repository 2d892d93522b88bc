//! Many clients at once.

use std::time::{Duration, Instant};

use mcp_client::EraChoice;
use serde_json::{Value, json};

use super::lab::{Folder, Gateway, fixture, text};
use crate::harness::eventually;

/// A million calls of them would take a debug build some minutes: as many clients, fewer calls.
const CLIENTS: u64 = 200;
const CALLS: u64 = 20;

/// S10: the ids of all clients are the same.
#[tokio::test]
async fn answers_reach_those_who_asked() {
    for form in [fixture(&["--stdio"]), fixture(&["old"])] {
        let gateway = Gateway::with(&form).await;
        let clients = (0..CLIENTS).map(async |client| {
            let connection = gateway.client(EraChoice::Newest, None).await;
            for n in 0..CALLS {
                let nonce = format!("{client}/{n}/{}", uuid::Uuid::new_v4());
                let call = json!({"name": "b__echo", "arguments": {"value": nonce}});
                let result = connection.request("tools/call", &call).await.unwrap();
                let result: Value = serde_json::from_str(result.get()).unwrap();
                assert_eq!(result["structuredContent"]["value"], nonce);
            }
        });
        futures_util::future::join_all(clients).await;
        let status = gateway.backend("b").await;
        assert_eq!(status["calls"], CLIENTS * CALLS, "{status}");
        assert_eq!(status["errors"], 0, "{status}");
    }
}

/// R17: as many at a time as eight backends are given, which is all that the gateway takes; more than
/// a thousand in all.
#[tokio::test]
async fn clients_that_leave_are_noticed() {
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let fixture = fixture(&["--stdio"]);
    let config = keys.map(|key| format!("[backends.{key}]\n{fixture}\n"));
    let gateway = Gateway::start(Folder::new(), &config.concat(), &[]).await;
    for key in keys {
        gateway.until(key, "running").await;
    }
    let running = async || {
        let counts = keys.map(|key| gateway.tool_of(key, "count_slow", json!({})));
        let counts = futures_util::future::join_all(counts).await;
        let count = |counted: &Value| -> Option<u64> {
            let counted: Value = serde_json::from_str(text(counted)).unwrap();
            counted["running"].as_u64()
        };
        counts.iter().map(count).sum::<Option<u64>>()
    };
    let client = gateway.client(EraChoice::Newest, None).await;
    for round in 0..3 {
        let calls: Vec<_> = (0..480)
            .map(|n| {
                let client = client.clone();
                let name = format!("{}__slow", keys[n % keys.len()]);
                tokio::spawn(async move {
                    let call = json!({"name": name, "arguments": {"step": 100, "steps": 500}});
                    client.request("tools/call", &call).await
                })
            })
            .collect();
        eventually("all to run", async || {
            running().await.filter(|count| *count == 480)
        })
        .await;
        for call in &calls {
            call.abort();
        }
        let left = Instant::now();
        eventually("all to end", async || {
            running().await.filter(|count| *count == 0)
        })
        .await;
        // 1 s, on a machine of its own.
        let took = left.elapsed();
        assert!(took < Duration::from_secs(5), "round {round}: {took:?}");
    }
    for key in keys {
        let greeted = gateway.tool_of(key, "greet", json!({"name": "Ada"})).await;
        assert_eq!(text(&greeted), "Hello, Ada!");
    }
}
