//! The belongings of a view: its sessions, tasks and events, the client over stdio, and the answers to strangers.

use mcp_client::{Client, ClientInfo, Command, EraChoice};
use serde_json::{Value, json};

use super::super::env::{CALL_TIMEOUT, request, text};
use super::{VIEWS, Views, bearer, path};
use crate::harness::{Dialect, assert_contains, assert_lacks, binary, eventually, member_texts};

/// The id of a new session at `/mcp/VIEW`, and the result of `initialize`.
async fn session(views: &Views, view: &str) -> (String, Value) {
    let (bearer, body) = (
        bearer("admin"),
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
    );
    let headers = [("authorization", bearer.as_str()), ("accept", ACCEPT)];
    let reply = views
        .0
        .post_to(&path(view), &headers, body.to_string())
        .await;
    let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let body = reply.body.lines().find(|line| line.contains("result"));
    let json = body.unwrap().trim_start_matches("data:");
    let json: Value = serde_json::from_str(json).unwrap();
    (id, json["result"].clone())
}

const ACCEPT: &str = "application/json, text/event-stream";

/// A session of one view is unknown in another one, and without a view.
#[tokio::test]
async fn session_belongs_to_its_view() {
    let views = Views::start().await;
    for own in ["support", "other", ""] {
        let (id, _) = session(&views, own).await;
        for view in ["support", "other", ""] {
            let bearer = bearer("admin");
            let headers = [
                ("authorization", bearer.as_str()),
                ("mcp-session-id", &id),
                ("mcp-protocol-version", "2025-11-25"),
            ];
            let body = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
            let reply = views.0.post_to(&path(view), &headers, body).await;
            let expected = if own == view { 200 } else { 404 };
            assert_eq!(reply.status, expected, "{own} {view}: {reply:?}");
            for method in ["GET", "DELETE"] {
                if own != view {
                    let mut headers = headers.to_vec();
                    headers.push(("accept", "text/event-stream"));
                    let path = format!("/mcp{}", path(view));
                    let reply = views.0.request(method, &path, &headers).await;
                    assert_eq!(reply.status, 404, "{own} {view} {method}: {reply:?}");
                }
            }
        }
    }
}

/// Title and instructions are those of the view, the latter with those of its backends only.
#[tokio::test]
async fn server_introduces_itself_as_the_view() {
    let views = Views::start().await;
    let (_, support) = session(&views, "support").await;
    assert_eq!(support["serverInfo"]["title"], "Support desk");
    let instructions = support["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("Answer politely."), "{support}");
    assert_lacks(instructions, "gateway_status says why");
    assert_lacks(instructions, "\nc:");
    let (_, other) = session(&views, "").await;
    assert_eq!(other["serverInfo"]["title"], Value::Null);
    assert_contains(&other["instructions"], "gateway_status says why");
    let reply = views
        .request(("support", "admin"), Dialect::Modern, "tools/list", "", "")
        .await
        .json();
    let info = &reply["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(info["title"], "Support desk");
    let tools = reply["result"]["tools"].as_array().unwrap();
    let hello = tools.iter().find(|tool| tool["name"] == "say_hello");
    assert_has!(hello.unwrap(), {"title": "Say hello", "description": "Says hello to somebody."});
    assert_eq!(hello.unwrap()["annotations"]["destructiveHint"], true);
}

/// A view that does not exist, and one that the role may not use, are 404 without the names of others; without a
/// token it is 401, whether there is such a view or not.
#[tokio::test]
async fn unknown_view_tells_nothing_to_strangers() {
    let views = Views::start().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let mut replies = Vec::new();
    for (view, principal) in [
        ("/none", "admin"),
        ("/other", "desk"),
        ("/support/x", "admin"),
    ] {
        let bearer = bearer(principal);
        let headers = [("authorization", bearer.as_str())];
        let reply = views.0.post_to(view, &headers, body).await;
        assert_eq!(reply.status, 404, "{view}: {reply:?}");
        assert_lacks(&reply.body, "/mcp/support");
        replies.push(reply.body);
    }
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    for view in ["/none", "/support"] {
        assert_eq!(views.0.post_to(view, &[], body).await.status, 401, "{view}");
        let path = format!("/mcp{view}");
        let reply = views.0.request("GET", &path, &[]).await;
        assert_eq!(reply.status, 401, "{view}");
    }
    assert_eq!(views.0.request("GET", "/mcp", &[]).await.status, 405);
}

/// The gateway's own tools show the view and its backends; an event has the view and the published name.
#[tokio::test]
async fn status_events_and_metrics_have_the_view() {
    let views = Views::start().await;
    let own = async |view: &str, name: &str, arguments: Value| -> Value {
        let reply = views.call(view, "admin", name, arguments).await.json();
        serde_json::from_str(text(&reply["result"])).unwrap()
    };
    let reply = views
        .call("support", "admin", "say_hello", json!({"name": "Ada"}))
        .await;
    assert_contains(&reply.body, "Hello, Ada!");
    views
        .call("", "admin", "b__greet", json!({"name": "Bob"}))
        .await;
    let events = eventually("the event", async || {
        let query = json!({"event_type": "gateway.tool_call"});
        let events = own("support", "get_events", query).await;
        (!events.as_array().unwrap().is_empty()).then_some(events)
    })
    .await;
    assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    assert_has!(&events[0]["metadata"], {"view": "support", "tool_name": "b__greet"});
    let status = own("support", "gateway_status", json!({})).await;
    assert_eq!(status["gateway"]["view"], "support");
    assert!(status["backends"]["c"].is_null(), "{status}");
    let status = own("", "gateway_status", json!({})).await;
    assert!(status["gateway"]["view"].is_null());
    assert!(status["backends"]["c"].is_object());
    // The view has no right to it, though the role has.
    let reply = views
        .call(
            "support",
            "admin",
            "gateway_restart",
            json!({"backend": "b"}),
        )
        .await;
    assert!(reply.json()["error"].is_object(), "{reply:?}");
    let bearer = bearer("admin");
    let headers = [("authorization", bearer.as_str())];
    let metrics = views.0.request("GET", "/metrics", &headers).await.body;
    assert_contains(
        &metrics,
        r#"mcp_gateway_view_requests_total{view="support"}"#,
    );
}

/// A task of one view is unknown in another, also for the same token.
#[tokio::test]
async fn task_belongs_to_its_view() {
    let views = Views::start_with("", &format!("{}{}", super::ADMIN, SLOW)).await;
    let call = async |view: &str, method: &str, members: &str| -> Value {
        let bearer = bearer("admin");
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":{method:?},"params":{{{meta},{members}}}}}"#
        );
        let name = match method {
            "tools/call" => "compute",
            _ => members.split('"').nth(3).unwrap(),
        };
        let headers = [
            ("authorization", bearer.as_str()),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", name),
        ];
        views.0.post_to(&path(view), &headers, body).await.json()
    };
    let members = r#""name":"compute","arguments":{"seconds":2}"#;
    let created = call("a", "tools/call", members).await;
    let id = created["result"]["taskId"].as_str();
    let id = id.unwrap_or_else(|| panic!("{created}"));
    let members = format!(r#""taskId":{id:?}"#);
    assert!(call("b", "tasks/get", &members).await["error"].is_object());
    let own = call("a", "tasks/get", &members).await;
    assert!(own["result"].is_object(), "{own}");
}

const SLOW: &str = r#"
[views.a.tools.b__slow_compute]
name = "compute"
[views.b.tools.b__slow_compute]
name = "compute"
"#;

/// The client over stdio uses the view that `--view` names, in both eras.
#[tokio::test]
async fn stdio_client_uses_its_view() {
    let folder = super::Folder::new();
    let tables = VIEWS.replace("[views.other]\nbackends = [\"c\"]", "");
    let config = format!("[backends.b]\n{}\n{tables}", super::stdio_fixture());
    let file = folder.write("gateway.toml", &config);
    let args = |view| {
        let args = [
            "--stdio", "--config", &file, "--events", "memory", "--view", view,
        ];
        args.map(str::to_owned)
    };
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let program = binary("mcp-gateway");
        let command = Command::new(program.to_str().unwrap()).args(args("support"));
        let client = Client::builder().era(era).timeout(CALL_TIMEOUT);
        let client = client.stdio(command).unwrap();
        client
            .connect(&ClientInfo::new("tests", "1"))
            .await
            .unwrap();
        let names = eventually("the tools", async || {
            let listed = request(&client, "tools/list", json!({})).await;
            let names = member_texts(&listed["tools"], "name");
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            names.contains(&"say_hello".to_owned()).then_some(names)
        })
        .await;
        assert!(!names.contains(&"b__greet".to_owned()), "{names:?}");
        assert!(!names.contains(&"gateway_restart".to_owned()), "{names:?}");
        let call = json!({"name": "say_hello", "arguments": {"name": "Ada"}});
        let result = request(&client, "tools/call", call).await;
        assert_eq!(text(&result), "Hello, Ada!");
        let call = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
        assert!(client.request("tools/call", &call).await.is_err());
    }
    let mut process = tokio::process::Command::new(binary("mcp-gateway"));
    let output = process
        .args(args("suport"))
        .env_clear()
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_contains(
        &error,
        "there is no view \"suport\"; did you mean \"support\"?",
    );
}
