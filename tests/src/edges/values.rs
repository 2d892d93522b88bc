//! Arguments and results keep their bytes.

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
async fn a_value_goes_through_as_it_is() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for value in VALUES {
            let reply = server
                .call_as(dialect, "echo", &format!(r#"{{"value":{value}}}"#))
                .await;
            let echoed = format!(r#"{{"value":{value}}}"#);
            let text = serde_json::to_string(&echoed).unwrap();
            let text = format!(r#""text":{text}"#);
            assert!(reply.body.contains(&text), "{dialect:?} {value}: {reply:?}");
            let structured = format!(r#""structuredContent":{echoed}"#);
            assert_eq!(
                reply.body.contains(&structured),
                dialect.supports("2025-06-18"),
                "{dialect:?} {value}: {reply:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_raw_result_of_seed_001_too() {
    let server = fixture().await;
    for value in VALUES {
        let members = format!(r#""name":"echo","arguments":{{"value":{value}}}"#);
        let reply = server
            .request_as(Dialect::Unversioned, "mcp.callTool", "", &members)
            .await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"value":{value}}}}}"#);
        assert_eq!(reply.body, expected);
    }
}

#[tokio::test]
async fn a_progress_token_goes_through_as_it_is() {
    let server = fixture().await;
    let accept = ("accept", "application/json, text/event-stream");
    for token in [
        "123456789012345678901234567890",
        r#""\u00e4\/""#,
        "\"t\"",
        "7",
    ] {
        let members = format!(
            r#""name":"slow","arguments":{{"step":1,"steps":2}},"_meta":{{"progressToken":{token}}}"#
        );
        let body = Dialect::Unversioned.request("1", "tools/call", &members);
        let reply = server.post_with(&[accept], body).await;
        let said = format!(r#""progressToken":{token}"#);
        assert!(reply.body.contains(&said), "{reply:?}");
    }
    // What may not be a token asks for no progress, and does no harm.
    for token in ["1e400", "null", "[]", "{}", "1.5"] {
        let members = format!(
            r#""name":"slow","arguments":{{"step":1,"steps":2}},"_meta":{{"progressToken":{token}}}"#
        );
        let body = Dialect::Unversioned.request("1", "tools/call", &members);
        let reply = server.post_with(&[accept], body).await;
        assert_eq!(
            reply.json()["result"]["isError"],
            false,
            "{token}: {reply:?}"
        );
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
    let reply = server
        .post_with(&[("accept", "text/event-stream")], body)
        .await;
    let data = r#"{"jsonrpc":"2.0","id":1,"result":{"value":[1,  2, 3,  4]}}"#;
    assert_eq!(reply.body, format!("event: message\ndata: {data}\n\n"));
}
