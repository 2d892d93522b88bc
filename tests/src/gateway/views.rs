//! Views: `/mcp/NAME` with its own backends, tools and names, for each principal, in every dialect and method.

mod configuration;
mod properties;
mod sessions;

use mcp_client::{EraChoice, Options};
use serde_json::json;

use self::configuration::listener;
use super::env::{Gateway, text};
use super::input_requests::call;
use crate::harness::{Dialect, assert_contains, wait_until};

const TOKENS: [&str; 4] = ["reader", "oncall", "admin", "desk"];

pub(super) const ROLES: &str = r#"
[roles.reader]
allow = ["b__greet", "b__test_*", "b__database_query", "c__greet", "test://*"]
effects = ["reads"]
[roles.oncall]
allow = ["*"]
deny = ["b__test_error_handling"]
own = ["gateway_status"]
[roles.admin]
allow = ["*"]
own = ["events:all", "gateway_status", "gateway_restart"]
[roles.desk]
inherits = ["admin"]
views = ["support"]

[principals]
reader = "reader"
oncall = "oncall"
admin = "admin"
desk = "desk"
"#;

const ADMIN: &str = r#"
[roles.admin]
allow = ["*"]
own = ["gateway_status"]
[principals]
admin = "admin"
"#;

pub(super) const VIEWS: &str = r#"
[views.support]
backends = ["b"]
allow = ["b__greet", "b__echo", "b__test_*", "b__database_query", "test://*"]
deny = ["b__test_image_content", "test://static-binary"]
own = ["gateway_status", "get_events"]
title = "Support desk"
instructions = "Answer politely."
[views.support.tools.b__greet]
name = "say_hello"
[views.support.tools.b__test_error_handling]
name = "fail"
[views.support.tools.b__database_query]
name = "query"
[views.other]
backends = ["c"]
[views.all]
"#;

/// A gateway with two fixtures as backends, and these views and roles.
async fn start() -> Gateway {
    start_with("", &format!("{ROLES}{VIEWS}")).await
}

/// With these lines before the backends and after them.
async fn start_with(first: &str, tables: &str) -> Gateway {
    let config = format!(
        "{first}\n[backends.b]\nFIXTURE\n[backends.c]\nFIXTURE\ndeny = [\"test://*\"]\n{tables}"
    );
    let gateway = Gateway::guarded(&TOKENS, &config, &[]).await;
    wait_until("the tools and the prompts of both", async || {
        let status = gateway.told("admin", "gateway_status", json!({})).await;
        let running = status.matches(r#"\"status\":\"running\""#).count();
        let prompts = gateway.ask("admin", Dialect::Unversioned, "prompts/list", "", "");
        let prompts = prompts.await.body;
        let are_listed = ["b", "c"]
            .iter()
            .all(|key| prompts.contains(&format!("{key}__")));
        running == 2 && !status.contains(r#"\"tools\":0"#) && are_listed
    })
    .await;
    gateway
}

const TABLES: &str = r#"
[approvals]
confirm = ["b__test_simple_text"]
[views.v.tools]
b__test_elicitation.name = "ask"
b__test_simple_text.name = "plain"
b__test_tool_with_progress.name = "work"
"#;

#[tokio::test]
async fn renamed_tools_ask_and_report_progress() {
    let views = start_with("", &format!("{ADMIN}{TABLES}")).await;
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let (client, _messages) = listener(&views, "v", era).await;
        let (result, asked) = call(&client, "ask", json!({"message": "Who?"})).await;
        assert_eq!(asked, ["elicitation/create"], "{era:?}");
        assert_contains(text(&result), "e@x.org");
        // The rule is about the published name.
        let (result, asked) = call(&client, "plain", json!({})).await;
        assert_eq!(asked, ["elicitation/create"], "{era:?}");
        // Its user is told the published name; this answer does not confirm.
        assert_contains(text(&result), "the call of b__test_simple_text");
        let (reports, mut received) = tokio::sync::mpsc::channel(16);
        let work = json!({"name": "work", "arguments": {}});
        let options = Options::default().progress(reports);
        let called = client.request_with("tools/call", &work, options);
        called.await.unwrap();
        assert!(received.try_recv().is_ok(), "{era:?}");
    }
}
