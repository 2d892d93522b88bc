//! What is denied, what is searched, and what cannot be taken over.

use serde_json::{Value, json};

use super::lab::{Folder, Gateway, failure, fixture, text};
use crate::harness::{Dialect, assert_contains, assert_lacks, assert_starts_with, member_texts};

async fn denying(more: &str) -> Gateway {
    let folder = Folder::new();
    let fixture = fixture(&["--stdio"]);
    let config = format!("{more}\n[backends.b]\n{fixture}\ndeny = [\"greet\", \"test_simple*\"]\n");
    Gateway::running(folder, &config).await
}

/// S15.
#[tokio::test]
async fn what_is_denied_is_denied_by_every_name_and_in_every_way() {
    let gateway = denying("").await;
    for dialect in Dialect::ALL {
        let listed = gateway.request_as(dialect, "tools/list", "", "").await.body;
        assert!(
            !listed.contains("greet") && !listed.contains("test_simple_text"),
            "{dialect:?}"
        );
        for name in ["b__greet", "b:greet", "b.greet"] {
            let reply = gateway
                .server
                .call_as(dialect, name, r#"{"name":"Ada"}"#)
                .await;
            assert!(!reply.body.contains("Hello"), "{dialect:?} {reply:?}");
            assert!(reply.body.contains("rror"), "{dialect:?} {reply:?}");
        }
    }
    let listed = gateway.result("mcp.listTools", json!({})).await.to_string();
    assert!(!listed.contains("greet"), "{listed}");
    let call = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "b__greet", "arguments": {"name": "Ada"}}});
    for body in [
        json!([call("tools/call"), call("mcp.callTool")]),
        call("mcp.callTool"),
    ] {
        let reply = gateway.post(body.to_string()).await;
        assert_lacks(&reply.body, "Hello");
        assert_contains(&reply.body, "rror");
    }
    // Nobody learns its name from the list of those that there are.
    let unknown = gateway
        .error("tools/call", json!({"name": "nobody", "arguments": {}}))
        .await;
    assert!(!unknown.to_string().contains("greet"), "{unknown}");
    for wrong in [
        "b__Greet",
        "B__greet",
        "b__greet ",
        "b__greet\u{200b}",
        "b%5f%5fgreet",
    ] {
        let error = gateway
            .error("tools/call", json!({"name": wrong, "arguments": {}}))
            .await;
        assert_starts_with(&error["message"], "Tool not found");
    }
    let ends = gateway.ends(18 + 3).await;
    for end in &ends {
        assert_has!(end, {"outcome": "denied", "tool_name": "b__greet"});
    }
    assert_eq!(ends.len(), 18 + 3);
}

/// S15: prompts and resources.
#[tokio::test]
async fn what_else_is_denied_is_as_if_it_were_not_there() {
    let folder = Folder::new();
    let deny = r#"deny = ["test_simple_prompt", "test://static-*", "test://template/7/*"]"#;
    let config = format!("[backends.b]\n{}\n{deny}\n", fixture(&["--stdio"]));
    let gateway = Gateway::running(folder, &config).await;
    for dialect in Dialect::ALL {
        for method in ["prompts/list", "resources/list", "resources/templates/list"] {
            let listed = gateway.request_as(dialect, method, "", "").await.body;
            assert!(listed.contains("test"), "{dialect:?} {method} {listed}");
            assert!(
                !listed.contains("test_simple_prompt") && !listed.contains("test://static-"),
                "{dialect:?} {method}"
            );
        }
        let error = async |method: &str, name: &str, member: &str| {
            let members = format!("{member:?}:{name:?}");
            let answer = gateway.request_as(dialect, method, name, &members).await;
            let words = answer.json()["error"].to_string();
            words.replace(name, "NAME")
        };
        for (method, member, denied, unknown) in [
            (
                "resources/read",
                "uri",
                "test://static-text",
                "test://nobody",
            ),
            (
                "resources/read",
                "uri",
                "test://template/7/data",
                "test://nobody",
            ),
            ("prompts/get", "name", "b__test_simple_prompt", "b__nobody"),
        ] {
            let unknown = error(method, unknown, member).await;
            assert!(unknown.contains("code"), "{unknown}");
            let denied = error(method, denied, member).await;
            assert_eq!(denied, unknown, "{dialect:?} {method}");
        }
        let uri = "test://template/8/data";
        let members = format!("\"uri\":{uri:?}");
        let read = gateway.request_as(dialect, "resources/read", uri, &members);
        assert!(read.await.body.contains("Data for ID: 8"), "{dialect:?}");
    }
}

/// S15, by the way around: the pair of tools for large catalogues.
#[tokio::test]
async fn what_is_denied_is_neither_found_nor_called_by_search() {
    let gateway = denying("search_above = 10").await;
    let listed = gateway.result("tools/list", json!({})).await;
    let names = member_texts(&listed["tools"], "name");
    assert_eq!(
        names,
        [
            "gateway_status",
            "get_events",
            "gateway_restart",
            "search_tools",
            "call_tool"
        ]
    );

    let search = async |query: &str| {
        let found = gateway.tool("search_tools", json!({"query": query})).await;
        text(&found).to_owned()
    };
    let found = search("web search").await;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found[0]["name"], "b__web_search");
    assert!(found[0]["inputSchema"]["properties"]["query"].is_object());
    assert!(!search("greet somebody").await.contains("b__greet"));

    let by_call_tool = async |name: &str, arguments: Value| {
        let arguments = json!({"name": name, "arguments": arguments});
        gateway.answer("call_tool", arguments).await
    };
    let answer = by_call_tool("b__echo", json!({"value": 7})).await;
    assert!(text(&answer["result"]).contains('7'), "{answer}");
    for name in ["b__greet", "b:greet", "b.greet"] {
        let answer = by_call_tool(name, json!({"name": "Ada"})).await;
        assert!(!answer.to_string().contains("Hello"), "{answer}");
        failure(&answer);
    }
    let answer = by_call_tool("call_tool", json!({"name": "b__echo", "arguments": {}})).await;
    failure(&answer);
    let ends = gateway.ends(4).await;
    let outcomes: Vec<&Value> = ends.iter().map(|end| &end["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "denied", "denied", "denied"]);
    // Those that are not listed can still be called by who knows them.
    let result = gateway.tool("b:echo", json!({"value": 1})).await;
    assert_ne!(result["isError"], true, "{result}");
}

/// S22.
#[tokio::test]
async fn nobody_takes_the_name_of_another() {
    let folder = Folder::new();
    let tools = json!(
        [
            "gateway_status",
            "get_events",
            "b__work",
            "x",
            "x",
            "a:b",
            "",
            "call_tool"
        ]
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
    );
    let file = folder.write("tools", &tools.to_string());
    let odd = fixture(&["odd", "--tools", &file]);
    let good = fixture(&["odd"]);
    let config = format!("[backends.a]\n{odd}\n[backends.b]\n{good}\n");
    let gateway = Gateway::start(folder, &config, &[]).await;
    gateway.until("a", "running").await;
    gateway.until("b", "running").await;
    let listed = gateway.result("tools/list", json!({})).await;
    let names = member_texts(&listed["tools"], "name");
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    let both = ["a__gateway_status", "b__work"];
    assert!(both.iter().all(|name| names.contains(name)), "{names:?}");
    let status = gateway.own("gateway_status", json!({})).await;
    assert_eq!(status["gateway"]["name"], "mcp-gateway");
    let refused = status["not_offered"].to_string();
    assert!(refused.contains("listed twice"), "{status}");
    for name in names {
        assert!(
            name.len() <= 64
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'),
            "{name}"
        );
    }
}

/// Two backends with the same resource: the first one answers, and the other is shown as refused.
#[tokio::test]
async fn the_first_who_has_a_resource_keeps_it() {
    let folder = Folder::new();
    let fixture = fixture(&["--stdio"]);
    let config = format!("[backends.a]\n{fixture}\n[backends.b]\n{fixture}\n");
    let gateway = Gateway::start(folder, &config, &[]).await;
    gateway.until("a", "running").await;
    gateway.until("b", "running").await;
    let listed = gateway
        .result("resources/list", json!({}))
        .await
        .to_string();
    assert_eq!(listed.matches("test://static-text").count(), 1);
    let status = gateway.own("gateway_status", json!({})).await;
    assert_contains(&status["not_offered"], "another backend");
}
