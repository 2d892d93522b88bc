//! What the server says and asks of its own accord.

use mcp_client::{Era, Options};
use serde_json::{Value, json};

use super::ways::{Peer, recorder, ways};

#[tokio::test]
async fn questions_reach_the_handler_of_the_call_or_are_the_result() {
    for way in ways() {
        let mut peer = Peer::meet(way).await;
        if peer.is_plain() {
            continue;
        }
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let ask = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
        let result = peer.client.request_with("tools/call", &ask, options).await;
        let result: Value = serde_json::from_str(result.unwrap().get()).unwrap();
        if peer.is_modern() {
            assert_eq!(result["resultType"], "input_required");
            assert!(seen.try_recv().is_err());
        } else {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "elicitation/create");
            assert_eq!(params["message"], "Who?");
            assert!(result.to_string().contains("accept"), "{result}");
        }
        assert!(peer.seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn the_capabilities_of_one_call_count_for_that_call() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        if !peer.is_modern() {
            continue;
        }
        let none = serde_json::value::to_raw_value(&json!({})).unwrap();
        let options = Options::default().capabilities(none.into());
        let ask = json!({"name": "test_missing_capability", "arguments": {}});
        let error = peer.client.request_with("tools/call", &ask, options).await;
        assert_eq!(error.unwrap_err().rpc().unwrap().code, -32021);
    }
}

#[tokio::test]
async fn log_messages_reach_the_handler_of_the_call() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        if peer.is_plain() {
            continue;
        }
        if let Era::Legacy(_) = peer.client.era() {
            let level = json!({"level": "info"});
            peer.client
                .request("logging/setLevel", &level)
                .await
                .unwrap();
        }
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let call = json!({
            "name": "test_tool_with_logging", "arguments": {},
            "_meta": {"io.modelcontextprotocol/logLevel": "info"},
        });
        let called = peer.client.request_with("tools/call", &call, options).await;
        called.unwrap();
        for _ in 0..3 {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "notifications/message", "{way:?}");
            assert_eq!(params["level"], "info");
        }
    }
}

#[tokio::test]
async fn changes_are_heard_by_those_who_listen() {
    for way in ways() {
        let mut peer = Peer::meet(way).await;
        if peer.is_plain() {
            assert_eq!(peer.client.listen(&json!({})).await.is_err(), peer.is_http);
            continue;
        }
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": false});
        let listening = peer.client.listen(&wanted).await.unwrap();
        assert_eq!(listening.accepted().is_some(), peer.is_modern());
        if let Some(accepted) = listening.accepted() {
            assert!(accepted.get().contains("toolsListChanged"), "{accepted}");
        }
        let following = tokio::spawn(listening.closed());
        let change = json!({"name": "test_trigger_tool_change", "arguments": {}});
        peer.client.request("tools/call", &change).await.unwrap();
        let (method, _) = peer.seen.recv().await.unwrap();
        assert_eq!(method, "notifications/tools/list_changed", "{way:?}");
        following.abort();
    }
}
