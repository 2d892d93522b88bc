//! Views: `/mcp/NAME` with its own backends, tools, names and texts, for each principal, in every dialect and method.

mod calls;
mod configuration;
mod properties;
mod sessions;

use serde_json::{Value, json};

use super::env::{Folder, Gateway, stdio_fixture};
use crate::harness::{Dialect, Reply, eventually, member_texts};

const TOKENS: &str = "reader reader-has-a-token-of-32-characters
oncall oncall-has-a-token-of-32-characters
admin admin-has-a-token-of-32-characters!
desk desk-has-a-token-of-32-characters!!
";

const ROLES: &str = r#"
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

const VIEWS: &str = r#"
[views.support]
backends = ["b"]
allow = ["b__greet", "b__echo", "b__test_*", "b__database_query", "test://*"]
deny = ["b__test_image_content", "test://static-binary"]
own = ["gateway_status", "get_events"]
title = "Support desk"
instructions = "Answer politely."
[views.support.tools.b__greet]
name = "say_hello"
title = "Say hello"
description = "Says hello to somebody."
effect = "destructive"
[views.support.tools.b__test_error_handling]
name = "fail"
effect = "reads"
[views.support.tools.b__database_query]
name = "query"
effect = "reads"
[views.other]
backends = ["c"]
[views.all]
"#;

/// A gateway with two fixtures as backends, and these views and roles.
struct Views(Gateway);

impl Views {
    async fn start() -> Self {
        Self::start_with("", &format!("{ROLES}{VIEWS}")).await
    }

    /// With these lines before the backends and after them.
    async fn start_with(first: &str, tables: &str) -> Self {
        let folder = Folder::new();
        let tokens = folder.write("tokens", TOKENS);
        let config = format!(
            "{first}\n[backends.b]\n{fixture}\n[backends.c]\n{fixture}\ndeny = [\"test://*\"]\n{tables}",
            fixture = stdio_fixture()
        );
        let gateway = Gateway::start(folder, &config, &["--token-file", &tokens]).await;
        let views = Self(gateway);
        eventually("the tools", async || {
            let status = views.call("", "admin", "gateway_status", json!({})).await;
            let running = status.body.matches(r#"\"status\":\"running\""#).count();
            (running == 2 && !status.body.contains(r#"\"tools\":0"#)).then_some(())
        })
        .await;
        views
    }

    /// A request at `/mcp`, or `/mcp/VIEW`.
    async fn request(
        &self,
        (view, principal): (&str, &str),
        dialect: Dialect,
        method: &str,
        header: &str,
        members: &str,
    ) -> Reply {
        let bearer = bearer(principal);
        let mut headers = dialect.headers();
        headers.push(("authorization", &bearer));
        if dialect == Dialect::Modern {
            headers.push(("mcp-method", method));
            if !header.is_empty() {
                headers.push(("mcp-name", header));
            }
        }
        let body = dialect.request("1", method, members);
        self.0.post_to(&path(view), &headers, body).await
    }

    /// Calls a tool in the unversioned era.
    async fn call(&self, view: &str, principal: &str, name: &str, arguments: Value) -> Reply {
        let members = format!(r#""name":{name:?},"arguments":{arguments}"#);
        let dialect = Dialect::Unversioned;
        self.request((view, principal), dialect, "tools/call", name, &members)
            .await
    }

    async fn list(&self, at: (&str, &str), dialect: Dialect, method: &str, list: &str) -> Value {
        let reply = self.request(at, dialect, method, "", "").await;
        reply.json()["result"][list].clone()
    }

    async fn names(&self, at: (&str, &str), dialect: Dialect) -> Vec<String> {
        let listed = self.list(at, dialect, "tools/list", "tools").await;
        let names = member_texts(&listed, "name").into_iter();
        names.map(str::to_owned).collect()
    }

    /// Waits until the names at this place are as `is_done` wants them.
    async fn until(&self, at: (&str, &str), is_done: impl Fn(&[String]) -> bool) -> Vec<String> {
        eventually("the changed list", async || {
            let names = self.names(at, Dialect::Modern).await;
            is_done(&names).then_some(names)
        })
        .await
    }
}

fn path(view: &str) -> String {
    match view {
        "" => String::new(),
        view => format!("/{view}"),
    }
}

fn bearer(principal: &str) -> String {
    let mut lines = TOKENS.lines();
    let line = lines.find(|line| line.starts_with(principal)).unwrap();
    format!("Bearer {}", line.split(' ').nth(1).unwrap())
}

/// The answer to a request for `name`, without the name, and without the list of available tools.
fn shape(reply: &Reply, name: &str) -> String {
    let error = reply.json()["error"].clone();
    assert!(error.is_object(), "{reply:?}");
    let text = json!([error["code"], error["message"], error["data"]["kind"]]).to_string();
    text.replace(name, "NAME")
}
