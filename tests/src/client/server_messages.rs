//! Requests and notifications of the server.

use mcp_client::{Era, Options};
use serde_json::{Value, json};

use super::fixture::{Fixture, recorder};

#[tokio::test]
async fn elicitation_reaches_the_handler_of_the_call_or_is_the_result() {
    for mut fixture in Fixture::all().await {
        if fixture.is_unversioned() {
            continue;
        }
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let ask = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
        let result = fixture
            .client
            .request_with("tools/call", &ask, options)
            .await;
        let result: Value = serde_json::from_str(result.unwrap().get()).unwrap();
        if fixture.is_modern() {
            assert_eq!(result["resultType"], "input_required");
            assert!(seen.try_recv().is_err());
        } else {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "elicitation/create");
            assert_eq!(params["message"], "Who?");
            assert!(result.to_string().contains("accept"), "{result}");
        }
        assert!(fixture.seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn capabilities_of_a_call_replace_those_of_the_client() {
    for fixture in Fixture::all().await {
        if !fixture.is_modern() {
            continue;
        }
        let none = serde_json::value::to_raw_value(&json!({})).unwrap();
        let options = Options::default().capabilities(none.into());
        let ask = json!({"name": "test_missing_capability", "arguments": {}});
        let error = fixture
            .client
            .request_with("tools/call", &ask, options)
            .await;
        assert_eq!(error.unwrap_err().rpc().unwrap().code, -32021);
    }
}

#[tokio::test]
async fn log_messages_reach_the_handler_of_the_call() {
    for fixture in Fixture::all().await {
        if fixture.is_unversioned() {
            continue;
        }
        if let Era::Legacy(_) = fixture.client.era() {
            let level = json!({"level": "info"});
            fixture
                .client
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
        let called = fixture
            .client
            .request_with("tools/call", &call, options)
            .await;
        called.unwrap();
        for _ in 0..3 {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "notifications/message", "{}", fixture.label());
            assert_eq!(params["level"], "info");
        }
    }
}

#[tokio::test]
async fn changes_reach_clients_that_listen() {
    for mut fixture in Fixture::all().await {
        if fixture.is_unversioned() {
            assert_eq!(
                fixture.client.listen(&json!({})).await.is_err(),
                fixture.is_http
            );
            continue;
        }
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": false});
        let listening = fixture.client.listen(&wanted).await.unwrap();
        assert_eq!(listening.accepted().is_some(), fixture.is_modern());
        if let Some(accepted) = listening.accepted() {
            assert!(accepted.get().contains("toolsListChanged"), "{accepted}");
        }
        let following = tokio::spawn(listening.closed());
        let change = json!({"name": "test_trigger_tool_change", "arguments": {}});
        fixture.client.request("tools/call", &change).await.unwrap();
        let (method, _) = fixture.seen.recv().await.unwrap();
        assert_eq!(
            method,
            "notifications/tools/list_changed",
            "{}",
            fixture.label()
        );
        following.abort();
    }
}
