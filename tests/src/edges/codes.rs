//! Error codes by era and by profile.

use serde_json::{Value, json};

use super::{FIXTURE, fixture, refused, still_works};
use crate::harness::{Dialect, Reply, Server, assert_contains};
use crate::stdio::StdioServer;
use crate::surface::SERVERS;

#[tokio::test]
async fn error_names_the_unknown_method_and_the_one_that_was_meant() {
    let server = fixture().await;
    for (method, meant) in [
        ("no/such", ""),
        ("tools/lst", "; did you mean \"tools/list\"?"),
        ("tools.list", "; did you mean \"tools/list\"?"),
        ("tool/call", "; did you mean \"tools/call\"?"),
        ("Prompts/Get", "; did you mean \"prompts/get\"?"),
    ] {
        for dialect in Dialect::ALL {
            let status = if dialect == Dialect::Modern { 404 } else { 200 };
            let reply = server.request_as(dialect, method, "", "").await;
            let error = refused(&reply, status, -32601, json!(1));
            assert_eq!(
                error["message"],
                format!("Method not found: {method}{meant}")
            );
            let mut data = json!({"kind": "method_not_found", "method": method});
            // The seeds have no such member.
            if dialect != Dialect::Unversioned {
                let page = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/errors.md");
                data["help"] = format!("{page}#method_not_found").into();
            }
            assert_eq!(error["data"], data);
        }
    }
}

#[tokio::test]
async fn removed_methods_are_unknown_in_the_modern_era_only() {
    let server = fixture().await;
    let seed_001 = ["mcp.listTools", "mcp.callTool", "mcp.getServerInfo"];
    for method in seed_001.into_iter().chain(["initialize", "ping"]) {
        let reply = server.request_as(Dialect::Modern, method, "", "").await;
        refused(&reply, 404, -32601, json!(1));
    }
    still_works(&server).await;
}

#[tokio::test]
async fn unknown_tool_is_an_invalid_parameter() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let reply = server.call_as(dialect, "invalid_tool", "{}").await;
        let error = refused(&reply, 200, -32602, json!(1));
        let (hint, list) = match dialect {
            Dialect::Unversioned => ("", "availableTools"),
            _ => ("; tools/list has the names of all tools", "similarTools"),
        };
        assert_eq!(
            error["message"],
            format!("Tool not found: invalid_tool{hint}")
        );
        assert!(error["data"][list].is_array(), "{error}");
        let reply = server.call_as(dialect, "eccho", "{}").await;
        let error = refused(&reply, 200, -32602, json!(1));
        let names = error["data"][list].as_array().unwrap();
        assert!(names.contains(&json!("echo")), "{error}");
    }
    // Seed 001 has another code.
    for dialect in [Dialect::Unversioned, Dialect::Legacy("2025-11-25")] {
        let members = r#""name":"invalid_tool","arguments":{}"#;
        let method = "mcp.callTool";
        let reply = server.request_as(dialect, method, "", members).await;
        let error = refused(&reply, 200, -32603, json!(1));
        assert_has!(error, {"message": "Internal error: Tool not found: invalid_tool"});
        let available = error["data"]["availableTools"].as_array().unwrap();
        assert!(available.contains(&json!("echo")), "{error}");
    }
}

#[tokio::test]
async fn tool_that_the_options_leave_out_is_explained() {
    let args = ["--toolsets", "default,images", "--read-only"];
    let env = [("DOCKER_HOST", "unix:///nonexistent")];
    let server = Server::with_args("docker-mcp-server", &args, &env).await;
    let left_out = "create_network is in the toolset networks, which this server does not offer. Whoever starts the \
        server can add it: --toolsets default,images,networks";
    let changes = "This server is read-only, and stop_container changes something.";
    for (tool, text) in [("create_network", left_out), ("stop_container", changes)] {
        for dialect in Dialect::ALL {
            let result = server.call_as(dialect, tool, "{}").await.json();
            assert_has!(&result["result"], {"isError": true});
            assert_eq!(result["result"]["content"][0]["text"], text, "{dialect:?}");
        }
        let members = format!(r#""name":"{tool}""#);
        let reply = server.request_as(Dialect::Unversioned, "mcp.callTool", "", &members);
        let error = refused(&reply.await, 200, -32000, json!(1));
        assert_has!(error, {"message": text, "data": {"kind": "forbidden"}});
    }
}

#[tokio::test]
async fn arguments_are_an_object_or_absent() {
    let server = fixture().await;
    for dialect in Dialect::ALL {
        for arguments in ["[]", "[1]", "\"x\"", "\"{x\"", "\"[]\"", "1", "true"] {
            let reply = server.call_as(dialect, "echo", arguments).await;
            let error = refused(&reply, 200, -32602, json!(1));
            assert_eq!(error["data"]["field"], "arguments", "{arguments}");
        }
        let name = "list_projects";
        for arguments in ["", r#","arguments":null"#] {
            let members = format!(r#""name":"{name}"{arguments}"#);
            let method = "tools/call";
            let reply = server.request_as(dialect, method, name, &members).await;
            assert_eq!(reply.json()["result"]["isError"], false, "{reply:?}");
        }
        for members in [r#""arguments":{}"#, r#""name":7"#, r#""name":null"#] {
            let reply = server.request_as(dialect, "tools/call", "", members).await;
            let error = refused(&reply, 200, -32602, json!(1));
            assert_eq!(error["data"]["field"], "name", "{members}");
        }
    }
    for params in ["[]", "[\"echo\",{}]"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        refused(&server.post(body).await, 200, -32602, json!(1));
    }
    let method = "completion/complete";
    for members in [
        r#""ref":["ref/resource","test://template/{id}/data"],"argument":{"name":"id","value":"1"}"#,
        r#""ref":{"type":"ref/resource","uri":"test://template/{id}/data"},"argument":["id","1"]"#,
    ] {
        let reply = server.request_as(Dialect::Unversioned, method, "", members);
        refused(&reply.await, 200, -32602, json!(1));
    }
}

/// The message about invalid arguments: a failed result if the revision has SEP-1303, so that the model
/// can correct them, otherwise an error.
#[track_caller]
fn argument_error(reply: &Reply, dialect: Dialect) -> String {
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
async fn invalid_arguments_are_named_with_the_valid_ones() {
    let server = fixture().await;
    let cases = [
        (
            r#""query":"x","limit":3"#,
            "limit query max_results language",
        ),
        ("", "query missing"),
        (r#""query":7.5"#, "query string"),
        (r#""query":"x","language":"fr""#, "language zh en auto"),
        (r#""query":"x","max_results":0"#, "max_results 1 100"),
        (r#""query":"x","query":"y""#, "query duplicate"),
    ];
    for dialect in Dialect::ALL {
        for (members, words) in cases {
            let arguments = format!("{{{members}}}");
            let reply = server.call_as(dialect, "web_search", &arguments).await;
            let text = argument_error(&reply, dialect);
            for word in words.split(' ') {
                assert!(text.contains(word), "{members}: {text:?} lacks {word:?}");
            }
        }
        let surrogate = r#"{"projectId":"\ud800"}"#;
        let reply = server.call_as(dialect, "get_project", surrogate).await;
        assert_contains(&argument_error(&reply, dialect), "projectId");
    }
}

#[tokio::test]
async fn failed_tool_shows_its_message_and_logs_its_cause() {
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
    server.wait_for_log("the cause for the log").await;
}

#[tokio::test]
async fn only_modern_results_have_modern_members() {
    let server = fixture().await;
    let echo = r#""name":"echo","arguments":{"value":1}"#;
    for dialect in Dialect::ALL {
        for (method, name, members) in [("tools/list", "", ""), ("tools/call", "echo", echo)] {
            let reply = server.request_as(dialect, method, name, members).await;
            let result = &reply.json()["result"];
            let is_modern = dialect == Dialect::Modern;
            assert_eq!(result.get("resultType").is_some(), is_modern, "{result}");
            assert_eq!(result.get("_meta").is_some(), is_modern, "{result}");
            let is_cacheable = is_modern && method == "tools/list";
            assert_eq!(result.get("ttlMs").is_some(), is_cacheable);
        }
    }
}

#[tokio::test]
async fn profiles_apply_to_unversioned_requests_only() {
    // Unknown tool, wrong arguments, forbidden.
    let profiles = [
        ("spec", [-32602, -32602, 40300]),
        ("codefluss", [-32602, -32602, -32002]),
        ("extended", [-32007, -32001, -32010]),
    ];
    for (profile, codes) in profiles {
        let server = Server::with_args(FIXTURE, &["--error-profile", profile], &[]).await;
        for dialect in Dialect::ALL {
            let [tool, arguments, forbidden] = match dialect {
                Dialect::Unversioned => codes,
                Dialect::Legacy(_) | Dialect::Modern => profiles[0].1,
            };
            let reply = server.call_as(dialect, "invalid_tool", "{}").await;
            refused(&reply, 200, tool, json!(1));
            let reply = server.call_as(dialect, "web_search", "[]").await;
            refused(&reply, 200, arguments, json!(1));
            // Even with a valid host.
            for origin in [
                "http://evil.example",
                "https://localhost.evil.example",
                "null",
            ] {
                let headers = [dialect.headers(), vec![("origin", origin)]].concat();
                let ping = dialect.request("1", "ping", "");
                let reply = server.post_with(&headers, ping).await;
                let error = refused(&reply, 403, forbidden, Value::Null);
                assert_eq!(error["data"]["kind"], "forbidden");
                let is_spec = forbidden == profiles[0].1[2];
                assert!(!is_spec || error["message"].to_string().contains("--allowed-hosts"));
            }
        }
    }
}

/// A panic of a tool fails only its own call, on every transport.
#[tokio::test]
async fn panic_is_an_internal_error() {
    let members = r#""name":"protocol_error_job","arguments":{}"#;
    let mut peer = StdioServer::start(&[]);
    for dialect in Dialect::ALL {
        let answer = peer.ask(dialect, "1", "tools/call", members).await;
        assert_eq!(answer["error"]["code"], -32603, "{dialect:?} {answer}");
    }
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let reply = server.call_as(dialect, "protocol_error_job", "{}").await;
        refused(&reply, 200, -32603, json!(1));
    }
    let batch = [
        Dialect::Unversioned.request("1", "tools/call", members),
        Dialect::Unversioned.request("2", "ping", ""),
    ];
    let replies = server.post(format!("[{}]", batch.join(","))).await.json();
    assert_eq!(replies[0]["error"]["code"], -32603);
    assert_eq!(replies[1]["result"], json!({}));
    server.wait_for_log("panicked").await;
    still_works(&server).await;
}

/// A client that cached a list would not see its changes; a list that never changes may be kept for five minutes.
#[tokio::test]
async fn lists_that_can_change_are_not_cached() {
    const CHANGING: [&str; 5] = [
        "mcp-gateway",
        "n8n-mcp-server",
        "openhands-mcp-server",
        "docker-mcp-server",
        FIXTURE,
    ];
    for program in SERVERS.into_iter().chain([FIXTURE]) {
        let server = Server::start(program, &[]).await;
        let found = server.request_as(Dialect::Modern, "server/discover", "", "");
        let found = found.await.json();
        let can_change = found["result"]["capabilities"]["tools"]["listChanged"] == true;
        assert!(can_change || !CHANGING.contains(&program), "{program}");
        let kept = if can_change { 0 } else { 300_000 };
        for method in ["server/discover", "tools/list"] {
            let reply = server.request_as(Dialect::Modern, method, "", "").await;
            assert_has!(reply.json()["result"], {"ttlMs": kept, "cacheScope": "private"});
        }
    }
}
