//! Calls, their results and their ends.

use std::time::Duration;

use mcp_client::{Era, EraChoice, Error, Options};
use mcp_core::revision::Revision;
use serde_json::json;
use serde_json::value::RawValue;

use super::ways::{Peer, recorder, ways};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// True if the result holds this JSON, as data or as text, which is all that the unversioned era has.
fn holds(result: &RawValue, json: &str) -> bool {
    let text = serde_json::to_string(json).unwrap();
    result.get().contains(json) || result.get().contains(text.trim_matches('"'))
}

#[tokio::test]
async fn the_era_is_found_and_told() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        let server = peer.client.server().unwrap();
        let expected = match way.1 {
            EraChoice::Newest | EraChoice::Modern => Era::Modern,
            EraChoice::Legacy => Era::Legacy(Revision::LATEST),
            EraChoice::Unversioned => Era::Unversioned,
        };
        assert_eq!(server.era, expected);
        assert_eq!(server.protocol_version, expected.revision());
        if !peer.is_plain() {
            let info = server.server_info.get();
            assert!(info.contains(r#""name":"mcp-conformance""#), "{info}");
        }
        peer.client.close().await;
    }
}

#[tokio::test]
async fn arguments_results_and_definitions_keep_their_bytes() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        let value = r#"{"n": 123456789012345678901234567890,"e":1e400, "s":"\u00e4","a":1,"a":2}"#;
        let params = format!(
            r#"{{"name":"echo","arguments":{{"value":{value}}},"_meta":{{"traceparent":"x"}}}}"#
        );
        let result = peer.client.request("tools/call", &raw(&params)).await;
        let result = result.unwrap();
        assert!(holds(&result, value), "{way:?}: {result}");

        let tools = peer.client.list("tools/list", "tools").await.unwrap();
        assert!(tools.len() > 20, "{}", tools.len());
        assert!(tools.iter().any(|tool| tool.get().contains("\"$anchor\"")));
    }
}

#[tokio::test]
async fn errors_of_the_server_arrive_as_they_are() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        let error = peer.client.request("no/such", &()).await.unwrap_err();
        assert_eq!(error.rpc().unwrap().code, -32601, "{way:?}: {error:?}");
        assert!(!error.was_not_sent() && !error.is_transport_failure());
        let missing = raw(r#"{"uri":"test://no-such"}"#);
        let error = peer.client.request("resources/read", &missing).await;
        let error = error.unwrap_err();
        let data = error.rpc().unwrap().data.as_ref();
        assert!(
            data.is_some_and(|data| data.get().contains("test://no-such")),
            "{way:?}"
        );
    }
}

#[tokio::test]
async fn many_calls_at_once_get_their_own_answers() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        let call = async |n: u32| {
            let params = json!({"name": "echo", "arguments": {"value": n}});
            let result = peer.client.request("tools/call", &params).await.unwrap();
            assert!(holds(&result, &format!(r#""value":{n}}}"#)), "{result}");
        };
        futures_util::future::join_all((0..200).map(call)).await;
        assert_eq!(peer.client.counters().unmatched_responses, 0);
    }
}

#[tokio::test]
async fn progress_comes_under_the_token_of_the_caller() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let params = raw(
            r#"{"name":"slow","arguments":{"step":0,"steps":3},"_meta":{"progressToken":"mine"}}"#,
        );
        let result = peer
            .client
            .request_with("tools/call", &params, options)
            .await;
        assert!(holds(&result.unwrap(), r#""done":3"#));
        for step in 1..=3 {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "notifications/progress");
            assert_eq!(params["progressToken"], "mine", "{way:?}");
            assert_eq!(params["progress"].as_f64(), Some(step.into()));
        }
        assert!(seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn who_gives_up_stops_the_call() {
    for way in ways() {
        let peer = Peer::meet(way).await;
        if peer.is_plain() && peer.is_http {
            // Without a session nothing tells which request a notification is about.
            continue;
        }
        let slow = json!({"name": "slow", "arguments": {"step": 60_000, "steps": 1}});
        let options = Options::default().timeout(Duration::from_millis(100));
        let error = peer.client.request_with("tools/call", &slow, options).await;
        assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
        let count = json!({"name": "count_slow", "arguments": {}});
        let stopped = async {
            loop {
                let count = peer.client.request("tools/call", &count).await.unwrap();
                if holds(&count, r#""running":0"#) {
                    return;
                }
            }
        };
        let stopped = tokio::time::timeout(Duration::from_secs(5), stopped).await;
        assert!(stopped.is_ok(), "{way:?} goes on");
    }
}

#[tokio::test]
async fn a_call_whose_stream_is_closed_goes_on_on_the_next() {
    let peer = Peer::meet((true, EraChoice::Legacy)).await;
    let call = json!({"name": "test_reconnection", "arguments": {}});
    let result = peer.client.request("tools/call", &call).await.unwrap();
    assert!(result.get().contains("You came back."));
}
