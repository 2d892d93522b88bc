//! Bodies that are no message, and messages at the limits of what one may be.

use serde_json::{Value, json};

use super::{fixture, refused, serves_on};
use crate::harness::Dialect;

#[tokio::test]
async fn what_is_not_json_is_a_parse_error() {
    let server = fixture().await;
    let bodies: [&[u8]; 11] = [
        b"{",
        b"",
        b" ",
        b"nul",
        b"[",
        b"[1,]",
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"}x"#,
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffng\"}",
        br#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    ];
    for dialect in Dialect::ALL {
        for body in bodies {
            let reply = server.post_as(dialect, body).await;
            let error = refused(&reply, dialect.malformed_status(), -32700, Value::Null);
            assert_eq!(error["data"]["kind"], "parse_error");
        }
    }
    serves_on(&server).await;
}

#[tokio::test]
async fn what_is_no_message_is_an_invalid_request() {
    let server = fixture().await;
    let bodies = [
        ("7", Value::Null, Value::Null),
        ("\"ping\"", Value::Null, Value::Null),
        ("null", Value::Null, Value::Null),
        ("{}", Value::Null, json!("jsonrpc")),
        (r#"{"id":1,"method":"ping"}"#, json!(1), json!("jsonrpc")),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            json!(1),
            json!("jsonrpc"),
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#, json!(1), json!("method")),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#,
            json!(1),
            json!("method"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
            json!(1),
            json!("method"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#,
            json!(1),
            json!("params"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#,
            json!(1),
            json!("method"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            json!(2),
            json!("id"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            json!(1),
            json!("result"),
        ),
        ("[]", Value::Null, Value::Null),
    ];
    for dialect in Dialect::ALL {
        for (body, id, field) in &bodies {
            let reply = server.post_as(dialect, *body).await;
            let error = refused(&reply, dialect.malformed_status(), -32600, id.clone());
            assert_eq!(error["data"]["field"], *field, "{body}");
        }
    }
    serves_on(&server).await;
}

#[tokio::test]
async fn an_id_is_a_string_or_an_integer() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for id in ["null", "1.5", "1e3", "-0.0", "true", "false", "{}", "[1]"] {
            let reply = server
                .post_as(dialect, dialect.request(id, "ping", ""))
                .await;
            let error = refused(&reply, dialect.malformed_status(), -32600, Value::Null);
            assert_eq!(error["data"]["field"], "id", "{id}");
        }
    }
}

#[tokio::test]
async fn ids_come_back_as_they_came() {
    let server = fixture().await;
    let long = format!("\"{}\"", "x".repeat(10_000));
    let ids = [
        "0",
        "-0",
        "-7",
        "9007199254740993",
        "123456789012345678901234567890",
        r#""""#,
        r#""a b""#,
        r#""\u00e4\u4e16""#,
        "\"ä世🦀\"",
        r#""\ud83e\udd80""#,
        r#""\ud800""#,
        r#""\/\"\\\n""#,
        &long,
    ];
    for dialect in Dialect::ALL {
        for id in ids {
            let echoed = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
            // A result, an error of a method, an error of the envelope.
            for method in ["tools/list", "no/such"] {
                let mut headers = dialect.headers();
                if dialect == Dialect::Modern {
                    headers.push(("mcp-method", method));
                }
                let body = dialect.request(id, method, "");
                let reply = server.post_with(&headers, body).await;
                assert!(reply.body.starts_with(&echoed), "{dialect:?} {reply:?}");
            }
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":7}}"#);
            let reply = server.post_as(dialect, body).await;
            assert!(reply.body.starts_with(&echoed), "{dialect:?} {reply:?}");
        }
    }
}

#[tokio::test]
async fn batches_belong_to_the_revisions_that_have_them() {
    let server = fixture().await;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},7,{"jsonrpc":"2.0","id":"2","method":"tools/list"}]"#;
    for dialect in Dialect::ALL {
        let reply = server.post_as(dialect, batch).await;
        if dialect.supports("2025-06-18") {
            let error = refused(&reply, 400, -32600, Value::Null);
            assert!(error["message"].as_str().unwrap().contains("batch"));
            continue;
        }
        assert_eq!(reply.status, 200, "{dialect:?}");
        let replies = reply.json();
        assert_eq!(replies.as_array().unwrap().len(), 3, "{replies}");
        assert_eq!(replies[0]["result"], json!({}));
        assert_eq!(replies[1]["error"]["code"], -32600);
        assert_eq!(replies[1]["id"], Value::Null);
        assert!(replies[2]["result"]["tools"].is_array());

        let quiet = r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        let reply = server.post_as(dialect, quiet).await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (202, ""),
            "{dialect:?}"
        );

        let handshake = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}]"#;
        let reply = server.post_as(dialect, handshake).await;
        assert_eq!(reply.json()[0]["error"]["code"], -32600, "{dialect:?}");

        let many = vec![r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#; 51].join(",");
        let reply = server.post_as(dialect, format!("[{many}]")).await;
        refused(&reply, dialect.malformed_status(), -32600, Value::Null);
    }
}

#[tokio::test]
async fn a_modern_request_in_a_batch_is_refused_alone() {
    let server = fixture().await;
    let modern = Dialect::Modern.request("1", "tools/list", "");
    let plain = Dialect::Unversioned.request("2", "ping", "");
    let replies = server.post(format!("[{modern},{plain}]")).await.json();
    assert_eq!(replies[0]["error"]["code"], -32600);
    assert_eq!(replies[1]["result"], json!({}));
}

#[tokio::test]
async fn notifications_are_never_answered() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for method in [
            "initialized",
            "notifications/initialized",
            "no/such",
            "tools/call",
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            let reply = server.post_as(dialect, body).await;
            assert_eq!(
                (reply.status, reply.body.as_str()),
                (202, ""),
                "{dialect:?} {method}"
            );
        }
        // An answer to a question that nobody asked.
        let reply = server
            .post_as(dialect, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#)
            .await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (202, ""),
            "{dialect:?}"
        );
    }
}

#[tokio::test]
async fn a_long_name_is_not_sent_back_whole() {
    let server = fixture().await;
    let long = "m".repeat(1_000_000);
    for dialect in Dialect::ALL {
        let reply = server
            .post_as(dialect, dialect.request("1", &long, ""))
            .await;
        let small = reply.body.len() < 4_000;
        assert!(small, "{dialect:?}: {} bytes", reply.body.len());
        if dialect == Dialect::Modern {
            // It cannot stand in the header that it must equal.
            refused(&reply, 400, -32020, json!(1));
        } else {
            refused(&reply, 200, -32601, json!(1));
        }
        for members in [
            format!(r#""name":"{long}""#),
            format!(r#""name":"echo","arguments":{{"{long}":1}}"#),
            format!(r#""name":"get_project","arguments":{{"projectId":["{long}"]}}"#),
            format!(r#""name":"web_search","arguments":{{"query":"x","language":"{long}"}}"#),
            format!(r#""name":"web_search","arguments":{{"query":"x","max_results":"{long}"}}"#),
            format!(r#""cursor":"{long}""#),
        ] {
            let reply = server
                .request_as(dialect, "tools/call", "echo", &members)
                .await;
            let error = reply.body.contains("error") || reply.body.contains("\"isError\":true");
            let size = reply.body.len();
            assert!(
                error && size < 4_000,
                "{dialect:?} {size} bytes for {}",
                &members[..60]
            );
        }
    }
    serves_on(&server).await;
}

#[tokio::test]
async fn depth_is_no_danger() {
    const LEVELS: usize = 10_000;
    let server = fixture().await;
    let arrays = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(LEVELS), "}".repeat(LEVELS));
    for deep in [&arrays, &objects] {
        for dialect in Dialect::ALL {
            let reply = server
                .call_as(dialect, "echo", &format!(r#"{{"value":{deep}}}"#))
                .await;
            assert!(
                reply.body.contains(&deep.replace('"', r#"\""#)),
                "{dialect:?}"
            );

            let reply = server
                .post_as(dialect, dialect.request(deep, "ping", ""))
                .await;
            refused(&reply, dialect.malformed_status(), -32600, Value::Null);

            let reply = server
                .call_as(
                    dialect,
                    "get_project",
                    &format!(r#"{{"projectId":{deep}}}"#),
                )
                .await;
            assert!(reply.body.contains("projectId") && reply.body.len() < 2_000);
        }
        for body in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{deep}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{deep}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":{deep}}}"#),
        ] {
            let reply = server.post(body).await;
            assert_eq!(reply.body, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        }
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":{deep}}}}}"#
        );
        refused(&server.post(body).await, 200, -32602, json!(1));
        let reply = server.post(deep.to_owned()).await;
        assert_eq!(
            reply.status,
            200,
            "{}",
            &reply.body[..200.min(reply.body.len())]
        );
    }
    serves_on(&server).await;
}
