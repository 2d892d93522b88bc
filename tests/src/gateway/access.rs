//! Deny rules, the search of tools, and conflicts of names.

use serde_json::{Value, json};

use super::env::{Folder, Gateway, failure, text};
use crate::harness::{Dialect, assert_contains, assert_lacks, assert_starts_with, rpc, wait_until};

async fn denying(more: &str) -> Gateway {
    let deny = r#"deny = ["greet", "test_simple*", "test://static-*", "test://template/7/*"]"#;
    Gateway::of(&format!("{more}\n[backends.b]\nFIXTURE\n{deny}\n")).await
}

/// S15.
#[tokio::test]
async fn denied_item_is_denied_by_every_name_and_method() {
    let gateway = denying("").await;
    for dialect in Dialect::ALL {
        let listed = gateway.request_as(dialect, "tools/list", "", "").await.body;
        assert_lacks(&listed, "greet");
        assert_lacks(&listed, "test_simple_text");
        for name in ["b__greet", "b:greet", "b.greet"] {
            let reply = gateway.call_as(dialect, name, r#"{"name":"Ada"}"#).await;
            assert_lacks(&reply.body, "Hello");
            assert_contains(&reply.body, "rror");
        }
    }
    let listed = gateway.result("mcp.listTools", json!({})).await;
    assert_lacks(&listed, "greet");
    let params = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
    let call = |method| rpc(method, params.clone());
    let batch = json!([call("tools/call"), call("mcp.callTool")]);
    for body in [batch, call("mcp.callTool")] {
        let reply = gateway.post(body.to_string()).await;
        assert_lacks(&reply.body, "Hello");
        assert_contains(&reply.body, "rror");
    }
    // The list of available tools in this error does not have it either.
    let params = json!({"name": "unknown", "arguments": {}});
    let unknown = gateway.error("tools/call", params).await.to_string();
    assert_lacks(&unknown, "greet");
    for wrong in "b__Greet,B__greet,b__greet ,b__greet\u{200b},b%5f%5fgreet".split(',') {
        let error = gateway.unknown_tool(wrong).await;
        assert_starts_with(&error, "Tool not found");
    }
    let ends = denials(&gateway, 18 + 3).await;
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_has!(ends[0], {"outcome": "denied", "tool_name": "b__greet", "count": 18 + 3});
    Box::pin(denied_prompts_and_resources_look_like_unknown_ones(
        &gateway,
    ))
    .await;
}

/// Waits until so many requests were denied, and returns the events of calls: equal denials of a minute are one event with
/// their number, however often the log is read. Those of two minutes are put together.
async fn denials(gateway: &Gateway, requests: u64) -> Vec<Value> {
    let line =
        format!("mcp_gateway_denied_requests_total{{reason=\"configuration\"}} {requests}\n");
    wait_until(&line, async || {
        gateway.calls().await;
        gateway.metrics().await.contains(&line)
    })
    .await;
    let mut ends = gateway.calls().await;
    ends.dedup_by(|later, first| {
        let number = |end: &Value| end["count"].as_u64().unwrap_or(1);
        let are_denied = [&*first, &*later].map(|end| end["outcome"] == "denied");
        let are_equal = are_denied == [true; 2] && first["tool_name"] == later["tool_name"];
        if are_equal {
            first["count"] = json!(number(first) + number(later));
        }
        are_equal
    });
    ends
}

async fn denied_prompts_and_resources_look_like_unknown_ones(gateway: &Gateway) {
    for dialect in Dialect::ALL {
        for method in ["prompts/list", "resources/list", "resources/templates/list"] {
            let listed = gateway.request_as(dialect, method, "", "").await.body;
            assert!(listed.contains("test"), "{dialect:?} {method} {listed}");
            assert_lacks(&listed, "test_simple_prompt");
            assert_lacks(&listed, "test://static-");
        }
        let error = async |method: &str, name: &str, member: &str| {
            let members = format!("{member:?}:{name:?}");
            let answer = gateway.request_as(dialect, method, name, &members).await;
            let error = answer.json()["error"].to_string();
            error.replace(name, "NAME")
        };
        let (read, get) = (("resources/read", "uri"), ("prompts/get", "name"));
        for ((method, member), denied, unknown) in [
            (read, "test://static-text", "test://unknown"),
            (read, "test://template/7/data", "test://unknown"),
            (get, "b__test_simple_prompt", "b__unknown"),
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

/// S15: search_tools and call_tool obey the deny rules.
#[tokio::test]
async fn denied_tool_is_neither_found_nor_called_by_search_tools() {
    let gateway = denying("search_above = 10").await;
    let names = gateway.tool_names().await.join(" ");
    let own = "gateway_status get_events gateway_restart search_tools call_tool";
    assert_eq!(names, own);

    let search = async |query: &str| {
        let found = gateway.tool("search_tools", json!({"query": query})).await;
        text(&found).to_owned()
    };
    let found = search("web search").await;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found[0]["name"], "b__web_search");
    assert!(found[0]["inputSchema"]["properties"]["query"].is_object());
    assert!(!search("greet a person").await.contains("b__greet"));

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
    let ends = denials(&gateway, 3).await;
    let outcomes = ends.iter().map(|end| end["outcome"].as_str().unwrap());
    assert_eq!(outcomes.collect::<Vec<_>>(), ["ok", "denied"], "{ends:?}");
    // Tools that are not listed can still be called by name.
    let result = gateway.tool("b:echo", json!({"value": 1})).await;
    assert_ne!(result["isError"], true, "{result}");
}

/// Every name, method and era, and the search: only tools that their backend declares read-only.
#[tokio::test]
async fn read_only_gateway_forwards_only_read_only_tools() {
    for search in ["", "search_above = 1\n"] {
        let config = format!("{search}[backends.b]\nFIXTURE\n");
        let gateway = Gateway::start(Folder::new(), &config, &["--read-only"]).await;
        gateway.until("b", "running").await;
        for dialect in Dialect::ALL {
            // `confirm_delete` is destructive, `echo` is read-only.
            for name in ["b__confirm_delete", "b:confirm_delete", "b.confirm_delete"] {
                let reply = gateway.call_as(dialect, name, r#"{"filename":"a"}"#).await;
                assert_contains(&reply.body, "not found");
            }
            let seen = gateway.call_as(dialect, "b__echo", r#"{"value":"seen"}"#);
            assert_contains(&seen.await.body, "seen");
            let listed = gateway.request_as(dialect, "tools/list", "", "").await;
            for tool in listed.json()["result"]["tools"].as_array().unwrap() {
                let name = tool["name"].as_str().unwrap();
                let hint = &tool["annotations"]["readOnlyHint"];
                assert!(*hint == true || !dialect.supports("2025-03-26"), "{name}");
            }
        }
        let call = json!({"name": "b__confirm_delete", "arguments": {"filename": "a"}});
        let error = gateway.error("mcp.callTool", call.clone()).await;
        assert_contains(&error, "not found");
        if !search.is_empty() {
            let found = json!({"name": "search_tools", "arguments": {"query": "delete file"}});
            let found = gateway.result("mcp.callTool", found).await.to_string();
            assert_lacks(&found, "confirm_delete");
            let call = json!({"name": "call_tool", "arguments": call});
            let refused = gateway.result("tools/call", call).await;
            assert_eq!(refused["isError"], true, "{refused}");
        }
    }
}
