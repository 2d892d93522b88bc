//! Arguments and results keep their bytes.

use mcp_client::{EraChoice, Revision};
use serde_json::json;
use serde_json::value::RawValue;

use super::fixture;
use crate::harness::Dialect;

const VALUES: [&str; 14] = [
    "123456789012345678901234567890",
    "-0",
    "-0.0",
    "1e400",
    "1E+2",
    "0.1000000000000000055511151231257827",
    r#""\u00e4\/""#,
    r#""\ud800""#,
    r#""\ud83e\udd80 🦀""#,
    r#"{"b":1,"a":2,"b":3}"#,
    "[1, 2 ,3]",
    "{ }",
    "null",
    r#""</script>\u2028""#,
];

#[tokio::test]
async fn values_keep_their_bytes() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for value in VALUES {
            let echoed = format!(r#"{{"value":{value}}}"#);
            let reply = server.call_as(dialect, "echo", &echoed).await;
            let text = serde_json::to_string(&echoed).unwrap();
            let text = format!(r#""text":{text}"#);
            assert!(reply.body.contains(&text), "{dialect:?} {value}: {reply:?}");
            let structured = format!(r#""structuredContent":{echoed}"#);
            let is_structured = reply.body.contains(&structured);
            assert_eq!(is_structured, dialect.supports("2025-06-18"), "{reply:?}");
        }
        // Some clients send the object of all arguments as a text.
        let arguments = r#"{"value": [1e400, "ä"]}"#;
        let as_text = serde_json::to_string(&format!(" {arguments}\n")).unwrap();
        let [reply, expected] = [&*as_text, arguments]
            .map(|arguments| async { server.call_as(dialect, "echo", arguments).await.body });
        assert_eq!(reply.await, expected.await, "{dialect:?}");
    }
}

#[tokio::test]
async fn progress_tokens_keep_their_bytes() {
    let server = fixture().await;
    let call = async |token: &str| {
        let members = format!(
            r#""name":"slow","arguments":{{"step":1,"steps":2}},"_meta":{{"progressToken":{token}}}"#
        );
        let body = Dialect::Unversioned.request("1", "tools/call", &members);
        let accept = ("accept", "application/json, text/event-stream");
        server.post_with(&[accept], body).await
    };
    let long = "123456789012345678901234567890";
    for token in [long, r#""\u00e4\/""#, "\"t\"", "7"] {
        let reply = call(token).await;
        let progress = format!(r#""progressToken":{token}"#);
        assert!(reply.body.contains(&progress), "{reply:?}");
    }
    // An invalid token gets no progress, and does no harm.
    for token in ["1e400", "null", "[]", "{}", "1.5"] {
        let result = &call(token).await.json()["result"];
        assert_eq!(result["isError"], false, "{token}: {result}");
    }
}

#[tokio::test]
async fn line_breaks_between_values_do_not_break_events() {
    let server = fixture().await;
    let body = Dialect::Unversioned.request(
        "1",
        "mcp.callTool",
        "\"name\":\"echo\",\"arguments\":{\"value\":[1,\n\n2,\r3,\r\n4]}",
    );
    let accept = ("accept", "text/event-stream");
    let reply = server.post_with(&[accept], body).await;
    let data = r#"{"jsonrpc":"2.0","id":1,"result":{"value":[1,  2, 3,  4]}}"#;
    assert_eq!(reply.body, format!("event: message\ndata: {data}\n\n"));
}

#[tokio::test]
async fn text_of_a_structure_is_left_out_for_clients_that_say_so() {
    let server = fixture().await;
    let structured_only = json!({"experimental": {"structuredContentOnly": {}}});
    let other = json!({"experimental": {"structuredContentOnly": false, "x": {}}});
    for (era, has_structure) in [
        (EraChoice::Modern, true),
        (EraChoice::Revision(Revision::V2025_11_25), true),
        (EraChoice::Revision(Revision::V2025_06_18), true),
        (EraChoice::Revision(Revision::V2025_03_26), false),
    ] {
        for (capabilities, says_so) in [(&structured_only, true), (&other, false)] {
            let client = server.client_with(era, capabilities.clone(), None).await;
            let value = json!({"value": "ä"});
            let result = client.call_tool("echo", &value).await.unwrap();
            let structure = result.structured_content.as_deref().map(RawValue::get);
            let expected = r#"{"value":"ä"}"#;
            assert_eq!(structure, has_structure.then_some(expected), "{era:?}");
            let has_text = !(says_so && has_structure);
            let texts = result.content.iter();
            let texts: Vec<_> = texts.filter_map(|item| item.text.as_deref()).collect();
            assert_eq!(texts, vec![expected; usize::from(has_text)], "{era:?}");
        }
    }
}
