//! Invalid bodies, and messages at the limits of the protocol.

use serde_json::{Value, json};

use super::{accepted, fixture, refused, still_works};
use crate::harness::{Dialect, assert_contains};

/// The size of the largest body.
const MAX_BODY: usize = 4 << 20;
/// The memory that it may cost: its bytes, and room for the chunks from the socket.
const MAX_GROWTH_KIB: u64 = 3 * (MAX_BODY as u64 >> 10);

#[tokio::test]
async fn invalid_json_is_a_parse_error() {
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
    still_works(&server).await;
}

#[tokio::test]
async fn json_that_is_no_message_is_an_invalid_request() {
    let server = fixture().await;
    // Each body with the id and the field of its error; 0 and "" for none.
    let bodies = [
        ("7", 0, ""),
        ("\"ping\"", 0, ""),
        ("null", 0, ""),
        ("[]", 0, ""),
        ("{}", 0, "jsonrpc"),
        (r#"{"id":1,"method":"ping"}"#, 1, "jsonrpc"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 1, "jsonrpc"),
        (r#"{"jsonrpc":"2.0","id":1}"#, 1, "method"),
    ];
    // The same for the rest of a body that starts correctly.
    let rests = [
        (r#""method":["ping"]"#, 1, "method"),
        (r#""method":"\ud800""#, 1, "method"),
        (r#""method":"ping","params":"x""#, 1, "params"),
        (r#""method":"ping","method":"ping""#, 1, "method"),
        (r#""id":2,"method":"ping""#, 2, "id"),
        (r#""result":{},"error":{}"#, 1, "result"),
    ]
    .map(|(rest, id, field)| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,{rest}}}"#);
        (body, id, field)
    });
    let bodies = bodies.map(|(body, id, field)| (body.to_owned(), id, field));
    // An id must be a string or an integer.
    let ids = ["null", "1.5", "1e3", "-0.0", "true", "false", "{}", "[1]"].map(|id| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        (body, 0, "id")
    });
    for dialect in Dialect::ALL {
        for (body, id, field) in bodies.iter().chain(&rests).chain(&ids) {
            let reply = server.post_as(dialect, body.clone()).await;
            let or_null = |value: Value, is_null: bool| if is_null { Value::Null } else { value };
            let id = or_null(json!(id), *id == 0);
            let error = refused(&reply, dialect.malformed_status(), -32600, id);
            let field = or_null(json!(field), field.is_empty());
            assert_eq!(error["data"]["field"], field, "{body}");
        }
    }
    still_works(&server).await;
}

#[tokio::test]
async fn responses_repeat_the_bytes_of_the_id() {
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
            // A result, an unknown method, an invalid envelope.
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
async fn only_revisions_with_batches_accept_them() {
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

        let notifications = r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        accepted(&server.post_as(dialect, notifications).await);

        let handshake = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}]"#;
        let reply = server.post_as(dialect, handshake).await;
        assert_eq!(reply.json()[0]["error"]["code"], -32600, "{dialect:?}");

        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let pings = |count| format!("[{}]", vec![ping; count].join(","));
        let most = server.post_as(dialect, pings(50)).await.json();
        assert_eq!(most.as_array().unwrap().len(), 50, "{most}");
        let reply = server.post_as(dialect, pings(51)).await;
        refused(&reply, dialect.malformed_status(), -32600, Value::Null);
    }
    // A modern request among others fails alone.
    let modern = Dialect::Modern.request("1", "tools/list", "");
    let ping = Dialect::Unversioned.request("2", "ping", "");
    let replies = server.post(format!("[{modern},{ping}]")).await.json();
    assert_eq!(replies[0]["error"]["code"], -32600);
    assert_eq!(replies[1]["result"], json!({}));
}

#[tokio::test]
async fn notifications_and_responses_get_no_response() {
    let server = fixture().await;
    let methods = "initialized notifications/initialized no/such tools/call";
    for dialect in Dialect::ALL {
        for method in methods.split(' ') {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            accepted(&server.post_as(dialect, body).await);
        }
        // A response without a request.
        let response = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        accepted(&server.post_as(dialect, response).await);
    }
}

#[tokio::test]
async fn errors_truncate_long_names() {
    let server = fixture().await;
    let long = "m".repeat(1_000_000);
    for dialect in Dialect::ALL {
        let body = dialect.request("1", &long, "");
        let reply = server.post_as(dialect, body).await;
        let small = reply.body.len() < 4_000;
        assert!(small, "{dialect:?}: {} bytes", reply.body.len());
        // The modern era requires the same long name in a header.
        let (status, code) = match dialect {
            Dialect::Modern => (400, -32020),
            _ => (200, -32601),
        };
        refused(&reply, status, code, json!(1));
        for members in [
            format!(r#""name":"{long}""#),
            format!(r#""name":"echo","arguments":{{"{long}":1}}"#),
            format!(r#""name":"get_project","arguments":{{"projectId":["{long}"]}}"#),
            format!(r#""name":"web_search","arguments":{{"query":"x","language":"{long}"}}"#),
            format!(r#""name":"web_search","arguments":{{"query":"x","max_results":"{long}"}}"#),
            format!(r#""cursor":"{long}""#),
        ] {
            let method = "tools/call";
            let reply = server.request_as(dialect, method, "echo", &members).await;
            let is_error = reply.body.contains("error") || reply.body.contains("\"isError\":true");
            let (size, start) = (reply.body.len(), &members[..60]);
            let is_small = size < 4_000;
            assert!(is_error && is_small, "{dialect:?} {size} bytes: {start}");
        }
    }
    still_works(&server).await;
}

#[tokio::test]
async fn deep_nesting_does_no_harm() {
    const LEVELS: usize = 10_000;
    let server = fixture().await;
    let arrays = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(LEVELS), "}".repeat(LEVELS));
    for deep in [&arrays, &objects] {
        for dialect in Dialect::ALL {
            let value = format!(r#"{{"value":{deep}}}"#);
            let reply = server.call_as(dialect, "echo", &value).await;
            let escaped = deep.replace('"', r#"\""#);
            assert!(reply.body.contains(&escaped), "{dialect:?}");

            let ping = dialect.request(deep, "ping", "");
            let reply = server.post_as(dialect, ping).await;
            refused(&reply, dialect.malformed_status(), -32600, Value::Null);

            let id = format!(r#"{{"projectId":{deep}}}"#);
            let reply = server.call_as(dialect, "get_project", &id).await;
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
        let version = format!(r#""protocolVersion":{deep}"#);
        let body = Dialect::Unversioned.request("1", "initialize", &version);
        refused(&server.post(body).await, 200, -32602, json!(1));
        let reply = server.post(deep.to_owned()).await;
        let start = &reply.body[..200.min(reply.body.len())];
        assert_eq!(reply.status, 200, "{start}");
    }
    still_works(&server).await;
}

/// A body that would cost far more memory than its bytes.
#[tokio::test]
async fn large_batch_is_refused_without_reading_its_messages() {
    let ping = r#"{"id":1,"method":"ping","jsonrpc":"2.0"}"#;
    for item in ["{}", "1", "[]", r#""a""#, ping] {
        let server = fixture().await;
        server.post_as(Dialect::Unversioned, "[]").await;
        let before = server.peak_memory_kib();
        let items = vec![item; (MAX_BODY - 2) / (item.len() + 1)].join(",");
        let reply = server.post(format!("[{items}]")).await;
        let error = refused(&reply, 200, -32600, Value::Null);
        assert_contains(error["message"].as_str().unwrap(), "at most 50");
        let grown = server.peak_memory_kib() - before;
        assert!(grown <= MAX_GROWTH_KIB, "{item}: {grown} KiB more");
        still_works(&server).await;
    }
}
