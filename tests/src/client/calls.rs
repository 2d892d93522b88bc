//! Calls, their results, errors and cancellation.

use std::time::Duration;

use mcp_client::{Era, EraChoice, Error, Options};
use mcp_core::revision::Revision;
use serde_json::json;
use serde_json::value::RawValue;

use super::fixture::{Fixture, recorder};
use crate::harness::wait_until;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// Returns true if the result holds this JSON, as data or, in the unversioned era, as text.
fn holds(result: &RawValue, json: &str) -> bool {
    let text = serde_json::to_string(json).unwrap();
    result.get().contains(json) || result.get().contains(text.trim_matches('"'))
}

#[tokio::test]
async fn connect_negotiates_the_era() {
    for fixture in Fixture::all().await {
        let server = fixture.client.server().unwrap();
        let expected = match fixture.era {
            EraChoice::Newest | EraChoice::Modern => Era::Modern,
            EraChoice::Legacy => Era::Legacy(Revision::LATEST),
            EraChoice::Revision(revision) => Era::Legacy(revision),
            EraChoice::Unversioned => Era::Unversioned,
        };
        assert_eq!(server.era, expected);
        assert_eq!(server.protocol_version, expected.revision());
        if !fixture.is_unversioned() {
            let info = server.server_info.get();
            assert!(info.contains(r#""name":"mcp-conformance""#), "{info}");
        }
        fixture.client.close().await;
    }
}

#[tokio::test]
async fn arguments_results_and_definitions_keep_their_bytes() {
    for fixture in Fixture::all().await {
        let value = r#"{"n": 123456789012345678901234567890,"e":1e400, "s":"\u00e4","a":1,"a":2}"#;
        let params = format!(
            r#"{{"name":"echo","arguments":{{"value":{value}}},"_meta":{{"traceparent":"x"}}}}"#
        );
        let result = fixture.client.request("tools/call", &raw(&params)).await;
        let result = result.unwrap();
        assert!(holds(&result, value), "{}: {result}", fixture.label());

        let tools = fixture.client.list("tools/list", "tools").await.unwrap();
        assert!(tools.len() > 20, "{}", tools.len());
        assert!(tools.iter().any(|tool| tool.get().contains("\"$anchor\"")));
    }
}

#[tokio::test]
async fn annotations_of_tools_are_read() {
    for fixture in Fixture::all().await {
        let tools = fixture.client.list_tools().await.unwrap();
        let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
        let read_only = echo
            .annotations
            .as_ref()
            .map(|hints| hints.get().contains(r#""readOnlyHint":true"#));
        // The first revision has none.
        let has_hints = echo.raw.get().contains("readOnlyHint");
        assert_eq!(read_only, has_hints.then_some(true), "{}", fixture.label());
        assert!(has_hints || !fixture.is_modern(), "{}", fixture.label());
    }
}

#[tokio::test]
async fn errors_of_the_server_are_passed_on() {
    for fixture in Fixture::all().await {
        let error = fixture.client.request("no/such", &()).await.unwrap_err();
        assert_eq!(
            error.rpc().unwrap().code,
            -32601,
            "{}: {error:?}",
            fixture.label()
        );
        assert!(!error.was_not_sent() && !error.is_transport_failure());
        let missing = raw(r#"{"uri":"test://no-such"}"#);
        let error = fixture.client.request("resources/read", &missing).await;
        let error = error.unwrap_err();
        let data = error.rpc().unwrap().data.as_ref();
        assert!(
            data.is_some_and(|data| data.get().contains("test://no-such")),
            "{}",
            fixture.label()
        );
    }
}

#[tokio::test]
async fn concurrent_calls_get_their_own_results() {
    for fixture in Fixture::all().await {
        let call = async |n: u32| {
            let params = json!({"name": "echo", "arguments": {"value": n}});
            let result = fixture.client.request("tools/call", &params).await.unwrap();
            assert!(holds(&result, &format!(r#""value":{n}}}"#)), "{result}");
        };
        futures_util::future::join_all((0..200).map(call)).await;
        assert_eq!(fixture.client.counters().unmatched_responses, 0);
    }
}

#[tokio::test]
async fn progress_has_the_token_of_the_caller() {
    for fixture in Fixture::all().await {
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let params = raw(
            r#"{"name":"slow","arguments":{"step":0,"steps":3},"_meta":{"progressToken":"mine"}}"#,
        );
        let result = fixture
            .client
            .request_with("tools/call", &params, options)
            .await;
        assert!(holds(&result.unwrap(), r#""done":3"#));
        for step in 1..=3 {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "notifications/progress");
            assert_eq!(params["progressToken"], "mine", "{}", fixture.label());
            assert_eq!(params["progress"].as_f64(), Some(step.into()));
        }
        assert!(seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn timeout_stops_the_call_at_the_server() {
    for fixture in Fixture::all().await {
        if fixture.is_unversioned() && fixture.is_http {
            // Without a session a notification cannot name a request.
            continue;
        }
        let slow = json!({"name": "slow", "arguments": {"step": 60_000, "steps": 10}});
        let options = Options::default().timeout(Duration::from_millis(100));
        let error = fixture
            .client
            .request_with("tools/call", &slow, options)
            .await;
        assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
        let count = json!({"name": "count_slow", "arguments": {}});
        wait_until(&fixture.label(), async || {
            let count = fixture.client.request("tools/call", &count).await.unwrap();
            holds(&count, r#""running":0"#)
        })
        .await;
    }
}

#[tokio::test]
async fn call_is_resumed_on_the_next_stream() {
    let fixture = Fixture::connect(true, EraChoice::Legacy).await;
    let call = json!({"name": "test_reconnection", "arguments": {}});
    let result = fixture.client.request("tools/call", &call).await.unwrap();
    assert!(result.get().contains("You came back."));
}
