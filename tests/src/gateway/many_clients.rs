//! Many clients at once.

use mcp_client::EraChoice;
use serde_json::{Value, json};

use super::env::{Folder, Gateway, fixture, legacy_fixture, stdio_fixture};
use crate::harness::wait_until;

/// Fewer calls than the million of the requirement, which would take a debug build some minutes.
const CLIENTS: u64 = 200;
const CALLS: u64 = 20;

/// S10: all clients use the same request ids.
#[tokio::test]
async fn each_client_gets_its_own_answers() {
    for backend in [stdio_fixture(), legacy_fixture()] {
        // All calls may be sent at once, and wait for a busy machine.
        let backend = format!("{backend}\nmax_in_flight = 200\ntimeout = \"120s\"");
        let gateway = Gateway::with(&backend).await;
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

/// R17: the limit of eight backends at a time, and more than a thousand calls in total.
#[tokio::test]
async fn disconnect_cancels_the_calls() {
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    // The calls last longer than the test.
    let long = ["--call-timeout", "600"];
    let fixture = fixture(&[&["--stdio"], &long[..]].concat()) + "\ntimeout = \"600s\"";
    let config = keys.map(|key| format!("[backends.{key}]\n{fixture}\n"));
    let gateway = Gateway::start(Folder::new(), &config.concat(), &long).await;
    for key in keys {
        gateway.until(key, "running").await;
    }
    let running = async || {
        let counts = keys.map(|key| gateway.running_calls(key));
        let counts = futures_util::future::join_all(counts).await;
        counts.into_iter().sum::<Option<u64>>()
    };
    let client = gateway.client(EraChoice::Newest, None).await;
    for _ in 0..3 {
        let calls: Vec<_> = (0..480)
            .map(|n| {
                let client = client.clone();
                let name = format!("{}__slow", keys[n % keys.len()]);
                tokio::spawn(async move {
                    let call = json!({"name": name, "arguments": {"step": 600, "steps": 1000}});
                    client.request("tools/call", &call).await
                })
            })
            .collect();
        wait_until("all to run", async || running().await == Some(480)).await;
        for call in &calls {
            call.abort();
        }
        wait_until("all to end", async || running().await == Some(0)).await;
    }
    for key in keys {
        gateway.assert_answers(key).await;
    }
}
