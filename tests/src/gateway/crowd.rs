//! Many clients at once.

use std::time::{Duration, Instant};

use mcp_client::Dialect;
use serde_json::{Value, json};

use super::lab::{Gateway, eventually, fixture, text};
use super::passing::count;

/// S10: the ids of all clients are the same.
#[tokio::test]
async fn answers_reach_those_who_asked() {
    for form in [fixture(&["--stdio"]), fixture(&["old"])] {
        let gateway = Gateway::with(&form).await;
        let clients = (0..24).map(async |client| {
            let connection = gateway.client(Dialect::Newest, None).await;
            for n in 0..50 {
                let nonce = format!("{client}/{n}/{}", uuid::Uuid::new_v4());
                let call = json!({"name": "b__echo", "arguments": {"value": nonce}});
                let result = connection.request("tools/call", &call).await.unwrap();
                let result: Value = serde_json::from_str(result.get()).unwrap();
                assert_eq!(result["structuredContent"]["value"], nonce);
            }
        });
        futures_util::future::join_all(clients).await;
        let status = gateway.backend("b").await;
        assert_eq!(status["calls"], 1200, "{status}");
        assert_eq!(status["errors"], 0, "{status}");
    }
}

/// R17: sixty at a time, a thousand in all.
#[tokio::test]
async fn clients_that_leave_are_noticed() {
    let gateway = Gateway::before_fixture().await;
    let client = gateway.client(Dialect::Newest, None).await;
    for round in 0..17 {
        let calls: Vec<_> = (0..60)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let call = json!({"name": "b__slow", "arguments": {"step": 100, "steps": 200}});
                    client.request("tools/call", &call).await
                })
            })
            .collect();
        eventually("all to run", async || {
            count(&gateway).await.filter(|count| *count == 60)
        })
        .await;
        for call in &calls {
            call.abort();
        }
        let left = Instant::now();
        eventually("all to end", async || {
            count(&gateway).await.filter(|count| *count == 0)
        })
        .await;
        assert!(
            left.elapsed() < Duration::from_secs(3),
            "round {round}: {:?}",
            left.elapsed()
        );
    }
    assert_eq!(
        text(&gateway.tool("b__greet", json!({"name": "Ada"})).await),
        "Hello, Ada!"
    );
}
