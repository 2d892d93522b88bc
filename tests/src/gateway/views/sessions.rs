//! The belongings of a view: its sessions, tasks and events, the client over stdio, and the answers to strangers.

use mcp_client::{ClientInfo, Command, EraChoice};
use serde_json::{Value, json};

use super::super::env::{At, Folder, Gateway, bearer, request, stdio_fixture, text};
use super::{ADMIN, VIEWS, start, start_with};
use crate::harness::{
    Dialect, assert_contains, assert_lacks, binary, client_builder, eventually, initialize,
    member_texts,
};

/// The id of a new session at `/mcp/VIEW`, and the result of `initialize`.
async fn session(views: &Gateway, view: &str) -> (String, Value) {
    let reply = views
        .post_by((view, "admin"), initialize("2025-11-25"))
        .await;
    let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
    (id, reply.json()["result"].take())
}

const TOOLS_LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A session of one view is unknown in another one, and without a view. Its title and instructions are those of the view,
/// the latter with those of its backends only. A view that does not exist, and one that the role may not use, are 404
/// without the names of others; without a token it is 401, whether there is such a view or not.
#[tokio::test]
async fn session_belongs_to_its_view_which_strangers_do_not_know() {
    let views = start().await;
    for own in ["support", "other", ""] {
        let (id, _) = session(&views, own).await;
        for view in ["support", "other", ""] {
            let headers = [
                ("authorization", &*bearer("admin")),
                ("mcp-session-id", &id),
                ("mcp-protocol-version", "2025-11-25"),
            ];
            let path = At(view, "admin").path();
            let reply = views.post_to(&path, &headers, TOOLS_LIST).await;
            let expected = if own == view { 200 } else { 404 };
            assert_eq!(reply.status, expected, "{own} {view}: {reply:?}");
            for method in ["GET", "DELETE"] {
                if own != view {
                    let mut headers = headers.to_vec();
                    headers.push(("accept", "text/event-stream"));
                    let path = format!("/mcp{path}");
                    let reply = views.request(method, &path, &headers).await;
                    assert_eq!(reply.status, 404, "{own} {view} {method}: {reply:?}");
                }
            }
        }
    }
    let (_, support) = session(&views, "support").await;
    assert_eq!(support["serverInfo"]["title"], "Support desk");
    let instructions = support["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("Answer politely."), "{support}");
    assert_lacks(instructions, "gateway_status says why");
    assert_lacks(instructions, "\nc:");
    let (_, other) = session(&views, "").await;
    assert_eq!(other["serverInfo"]["title"], Value::Null);
    assert_contains(&other["instructions"], "gateway_status says why");
    let reply = views.ask(("support", "admin"), Dialect::Modern, "tools/list", "", "");
    let reply = reply.await.json();
    let info = &reply["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(info["title"], "Support desk");
    let mut replies = Vec::new();
    for at in [("none", "admin"), ("other", "desk"), ("support/x", "admin")] {
        let (view, reply) = (at.0, views.post_by(at, TOOLS_LIST).await);
        assert_eq!(reply.status, 404, "{view}: {reply:?}");
        assert_lacks(&reply.body, "/mcp/support");
        replies.push(reply.body);
    }
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    for view in ["/none", "/support"] {
        let posted = views.post_to(view, &[], TOOLS_LIST).await.status;
        let path = format!("/mcp{view}");
        let got = views.request("GET", &path, &[]).await.status;
        assert_eq!((posted, got), (401, 401), "{view}");
    }
    assert_eq!(views.request("GET", "/mcp", &[]).await.status, 405);
}

/// The gateway's own tools show the view and its backends; an event has the view and the published name.
#[tokio::test]
async fn status_events_and_metrics_have_the_view() {
    let views = start().await;
    let support = ("support", "admin");
    let greeted = views
        .told(support, "say_hello", json!({"name": "Ada"}))
        .await;
    assert_contains(&greeted, "Hello, Ada!");
    views
        .told("admin", "b__greet", json!({"name": "Bob"}))
        .await;
    let events = eventually("the event", async || {
        let query = json!({"event_type": "gateway.tool_call"});
        let events = views.own_by(support, "get_events", query).await;
        (!events.as_array().unwrap().is_empty()).then_some(events)
    })
    .await;
    assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    assert_has!(&events[0]["metadata"], {"view": "support", "tool_name": "b__greet"});
    let status = views.own_by(support, "gateway_status", json!({})).await;
    assert_has!(status, {"gateway": {"view": "support"}, "backends": {"c": null}});
    let status = views.own_by("admin", "gateway_status", json!({})).await;
    assert!(status["gateway"]["view"].is_null());
    assert!(status["backends"]["c"].is_object());
    // The view has no right to it, though the role has.
    let backend = json!({"backend": "b"});
    let reply = views.call_by(support, "gateway_restart", backend).await;
    assert!(reply.json()["error"].is_object(), "{reply:?}");
    // The event of a denied call has the published name too, and says who has decided.
    for (name, item, reason) in [
        (
            "b__greet",
            "b__greet",
            "view support: denied: it is say_hello there",
        ),
        ("c:greet", "c__greet", "view support: denied"),
        (
            "b__test_image_content",
            "b__test_image_content",
            "views.support.deny",
        ),
    ] {
        let reply = views.call_by(support, name, json!({})).await;
        assert!(reply.json()["error"].is_object(), "{reply:?}");
        let denied = eventually("the denied call", async || {
            let mut events = views.facts_by("admin").await.into_iter();
            events.find(|event| event["outcome"] == "denied" && event["item"] == item)
        })
        .await;
        assert_contains(&denied["denial"], reason);
    }
    let headers = [("authorization", &*bearer("admin"))];
    let metrics = views.request("GET", "/metrics", &headers).await.body;
    let counted = r#"mcp_gateway_view_requests_total{view="support"}"#;
    assert_contains(&metrics, counted);
}

/// A task of one view is unknown in another, also for the same token.
#[tokio::test]
async fn task_belongs_to_its_view() {
    let views = start_with("", &format!("{ADMIN}{SLOW}")).await;
    let ask = async |view: &str, method: &str, params: Value| {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let asked = views.ask_modern((view, "admin"), tasks, method, params);
        asked.await
    };
    let compute = json!({"name": "compute", "arguments": {"seconds": 2}});
    let created = ask("a", "tools/call", compute).await;
    let id = created["result"]["taskId"].as_str();
    let id = id.unwrap_or_else(|| panic!("{created}"));
    for (view, member) in [("b", "error"), ("a", "result")] {
        let found = ask(view, "tasks/get", json!({"taskId": id})).await;
        assert!(found[member].is_object(), "{view}: {found}");
    }
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
    let folder = Folder::new();
    let tables = VIEWS.replace("[views.other]\nbackends = [\"c\"]", "");
    let config = format!("[backends.b]\n{}\n{tables}", stdio_fixture());
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
        let client = client_builder().era(era);
        let client = client.stdio(command).unwrap();
        let info = ClientInfo::new("tests", "1");
        client.connect(&info).await.unwrap();
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
    let ended = process.args(args("suport")).env_clear().output();
    let output = ended.await.unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    let told = "there is no view \"suport\"; did you mean \"support\"?";
    assert_contains(&error, told);
}
