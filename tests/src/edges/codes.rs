//! Which error a wrong request gets, by era and by profile.

use serde_json::{Value, json};

use super::{FIXTURE, fixture, refused};
use crate::harness::{Dialect, Reply, Server};

#[tokio::test]
async fn an_unknown_method_is_named() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let status = if dialect == Dialect::Modern { 404 } else { 200 };
        let reply = server.request_as(dialect, "no/such", "", "").await;
        let error = refused(&reply, status, -32601, json!(1));
        assert_eq!(error["message"], "Method not found: no/such");
        assert_eq!(
            error["data"],
            json!({"kind": "method_not_found", "method": "no/such"})
        );
    }
}

#[tokio::test]
async fn what_the_modern_era_removed_is_gone_there_only() {
    let server = fixture().await;
    for method in [
        "initialize",
        "ping",
        "mcp.listTools",
        "mcp.callTool",
        "mcp.getServerInfo",
    ] {
        let reply = server.request_as(Dialect::Modern, method, "", "").await;
        refused(&reply, 404, -32601, json!(1));
    }
    let reply = server
        .request_as(Dialect::Unversioned, "ping", "", "")
        .await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn an_unknown_tool_is_an_invalid_parameter() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let reply = server.call_as(dialect, "invalid_tool", "{}").await;
        let error = refused(&reply, 200, -32602, json!(1));
        assert_eq!(error["message"], "Tool not found: invalid_tool");
        let available = error["data"]["availableTools"].as_array().unwrap();
        assert!(available.contains(&json!("echo")), "{error}");
    }
    // Except where seed 001 says otherwise.
    for dialect in [Dialect::Unversioned, Dialect::Legacy("2025-11-25")] {
        let members = r#""name":"invalid_tool","arguments":{}"#;
        let reply = server
            .request_as(dialect, "mcp.callTool", "", members)
            .await;
        let error = refused(&reply, 200, -32603, json!(1));
        assert_has!(error, {"message": "Internal error: Tool not found: invalid_tool"});
    }
}

#[tokio::test]
async fn arguments_are_an_object_or_absent() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for arguments in ["[]", "[1]", "\"x\"", "1", "true"] {
            let reply = server.call_as(dialect, "echo", arguments).await;
            let error = refused(&reply, 200, -32602, json!(1));
            assert_eq!(error["data"]["field"], "arguments", "{arguments}");
        }
        for members in [
            r#""name":"list_projects""#,
            r#""name":"list_projects","arguments":null"#,
        ] {
            let reply = server
                .request_as(dialect, "tools/call", "list_projects", members)
                .await;
            assert_eq!(reply.json()["result"]["isError"], false, "{reply:?}");
        }
        for (members, field) in [
            (r#""arguments":{}"#, "name"),
            (r#""name":7"#, "name"),
            (r#""name":null"#, "name"),
        ] {
            let reply = server.request_as(dialect, "tools/call", "", members).await;
            let error = refused(&reply, 200, -32602, json!(1));
            assert_eq!(error["data"]["field"], field, "{members}");
        }
    }
    for params in ["[]", "[\"echo\",{}]"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        refused(&server.post(body).await, 200, -32602, json!(1));
    }
}

/// What the caller is told about arguments that do not fit: as an error where a model cannot mend
/// them, as a failed result where it can (SEP-1303).
#[track_caller]
fn complaint(reply: &Reply, dialect: Dialect) -> String {
    if dialect.supports("2025-11-25") {
        assert_eq!(reply.status, 200);
        let result = &reply.json()["result"];
        assert_eq!(result["isError"], true, "{reply:?}");
        return result["content"][0]["text"].as_str().unwrap().to_owned();
    }
    let error = refused(reply, 200, -32602, json!(1));
    error["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named_with_what_would() {
    let server = fixture().await;
    let cases: [(&str, &str, &[&str]); 7] = [
        (
            "web_search",
            r#"{"query":"x","limit":3}"#,
            &["limit", "query", "max_results", "language"],
        ),
        ("web_search", "{}", &["query", "missing"]),
        ("web_search", r#"{"query":7}"#, &["query", "string"]),
        (
            "web_search",
            r#"{"query":"x","language":"fr"}"#,
            &["language", "zh", "en", "auto"],
        ),
        (
            "web_search",
            r#"{"query":"x","max_results":0}"#,
            &["max_results", "1", "100"],
        ),
        (
            "web_search",
            r#"{"query":"x","query":"y"}"#,
            &["query", "duplicate"],
        ),
        ("get_project", r#"{"projectId":"\ud800"}"#, &["projectId"]),
    ];
    for dialect in Dialect::ALL {
        for (tool, arguments, words) in cases {
            let reply = server.call_as(dialect, tool, arguments).await;
            let text = complaint(&reply, dialect);
            for word in words {
                assert!(text.contains(word), "{arguments}: {text:?} lacks {word:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_tool_that_fails_says_what_the_model_may_know() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let reply = server.call_as(dialect, "fail", "{}").await;
        let result = &reply.json()["result"];
        assert_eq!(result["isError"], true);
        let text = "The service failed; try again later.";
        assert_eq!(result["content"][0]["text"], text);
        assert!(!reply.body.contains("the cause for the log"), "{reply:?}");
        assert_eq!(result.get("structuredContent"), None);
    }
    assert!(server.log().contains("the cause for the log"));
}

#[tokio::test]
async fn what_is_modern_stays_modern() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for (method, name, members) in [
            ("tools/list", "", ""),
            (
                "tools/call",
                "echo",
                r#""name":"echo","arguments":{"value":1}"#,
            ),
        ] {
            let result = server
                .request_as(dialect, method, name, members)
                .await
                .json()["result"]
                .clone();
            let is_modern = dialect == Dialect::Modern;
            assert_eq!(result.get("resultType").is_some(), is_modern, "{result}");
            assert_eq!(result.get("_meta").is_some(), is_modern, "{result}");
            assert_eq!(
                result.get("ttlMs").is_some(),
                is_modern && method == "tools/list"
            );
        }
    }
}

#[tokio::test]
async fn profiles_renumber_the_plain_era_only() {
    // Unknown tool, wrong arguments, forbidden.
    let profiles = [
        ("spec", [-32602, -32602, 40300]),
        ("codefluss", [-32602, -32602, -32002]),
        ("extended", [-32007, -32001, -32010]),
    ];
    for (profile, plain) in profiles {
        let server = Server::with_args(FIXTURE, &["--error-profile", profile], &[]).await;
        for dialect in Dialect::ALL {
            let [tool, arguments, forbidden] = match dialect {
                Dialect::Unversioned => plain,
                Dialect::Legacy(_) | Dialect::Modern => profiles[0].1,
            };
            let reply = server.call_as(dialect, "invalid_tool", "{}").await;
            refused(&reply, 200, tool, json!(1));
            let reply = server.call_as(dialect, "web_search", "[]").await;
            refused(&reply, 200, arguments, json!(1));
            let mut headers = dialect.headers();
            headers.push(("origin", "http://evil.example"));
            let reply = server
                .post_with(&headers, dialect.request("1", "ping", ""))
                .await;
            refused(&reply, 403, forbidden, Value::Null);
        }
    }
}
