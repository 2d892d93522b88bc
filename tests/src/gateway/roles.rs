//! Roles: items that a principal may list and use, in every dialect, method and spelling.

mod arguments;
mod configuration;
mod events;
pub(super) mod page;
mod properties;

use serde_json::{Value, json};

use super::env::{Folder, Gateway, stdio_fixture};
use crate::harness::{Dialect, Reply, assert_contains, assert_lacks, member_texts, wait_until};

const TOKENS: &str = "reader reader-has-a-token-of-32-characters
oncall oncall-has-a-token-of-32-characters
admin admin-has-a-token-of-32-characters!
guest guest-has-a-token-of-32-characters!
";

/// The token file gives it a role, which goes before `[principals]`.
const PROMOTED: &str = "promoted promoted-has-a-token-of-32-chars role=reader\n";

const ROLES: &str = r#"
[roles.reader]
allow = ["b__greet", "b__test_simple_text", "b__test_simple_prompt", "test://static-text", "test://template/*"]
deny = ["test://template/7*"]
[roles.oncall]
inherits = ["reader"]
allow = ["b__*", "test://*"]
deny = ["b__test_error_handling"]
own = ["gateway_status"]
[roles.admin]
allow = ["*"]
own = ["events:all", "gateway_status", "gateway_restart"]

[principals]
reader = "reader"
oncall = "oncall"
admin = "admin"
promoted = "admin"
"#;

const PRINCIPALS: [&str; 5] = ["reader", "oncall", "admin", "guest", "promoted"];

struct Roles(Gateway);

impl Roles {
    async fn start(more: &str) -> Self {
        Self::start_with(more, "", &[]).await
    }

    /// With more roles, and with these roles of principals.
    async fn start_with(more: &str, roles: &str, principals: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        let tokens = folder.write("tokens", &format!("{TOKENS}{PROMOTED}"));
        let mut all = format!("{roles}{ROLES}");
        for (principal, role) in principals {
            all = all.replace(&format!("{principal} = \"{principal}\"\n"), "");
            all.push_str(&format!("{principal} = \"{role}\"\n"));
        }
        let config = format!("{more}\n[backends.b]\n{}\n{all}", stdio_fixture());
        let events = folder.path("events.db");
        let args = ["--token-file", &tokens, "--events", &events];
        let gateway = Gateway::start(folder, &config, &args).await;
        let roles = Self(gateway);
        wait_until("the tools", async || {
            let status = roles.call("admin", "gateway_status", json!({})).await;
            status.contains(r#"\"status\":\"running\""#) && !status.contains(r#"\"tools\":0"#)
        })
        .await;
        roles
    }

    async fn request(
        &self,
        principal: &str,
        dialect: Dialect,
        method: &str,
        name: &str,
        members: &str,
    ) -> Reply {
        let bearer = bearer(principal);
        let headers = [("authorization", bearer.as_str())];
        let request = self
            .0
            .request_with(&headers, dialect, method, name, members);
        request.await
    }

    /// Calls a tool in the unversioned era and returns the body.
    async fn call(&self, principal: &str, name: &str, arguments: Value) -> String {
        let members = format!(r#""name":{name:?},"arguments":{arguments}"#);
        let dialect = Dialect::Unversioned;
        let reply = self.request(principal, dialect, "tools/call", name, &members);
        reply.await.body
    }

    async fn names(&self, principal: &str, dialect: Dialect) -> Vec<String> {
        let listed = self
            .request(principal, dialect, "tools/list", "", "")
            .await
            .json();
        let names = member_texts(&listed["result"]["tools"], "name");
        names.into_iter().map(str::to_owned).collect()
    }
}

fn bearer(principal: &str) -> String {
    let mut lines = TOKENS.lines().chain(PROMOTED.lines());
    let line = lines.find(|line| line.starts_with(principal));
    let token = line.unwrap().split(' ').nth(1).unwrap();
    format!("Bearer {token}")
}

/// The answer to a request for `name`, without the name, and without the list of available tools.
fn shape(reply: &Reply, name: &str) -> String {
    let error = reply.json()["error"].clone();
    assert!(error.is_object(), "{reply:?}");
    let text = json!([error["code"], error["message"], error["data"]["kind"]]).to_string();
    text.replace(name, "NAME")
}

/// A tool that is listed can be called, and one that is not is answered like a name that does not exist.
#[tokio::test]
async fn tool_that_a_role_does_not_allow_does_not_exist_in_any_dialect() {
    let roles = Roles::start("").await;
    let all = roles.names("admin", Dialect::Modern).await;
    assert!(all.len() > 20, "{all:?}");
    for principal in PRINCIPALS {
        for dialect in Dialect::ALL {
            let listed = roles.names(principal, dialect).await;
            let expected: Vec<&String> = all
                .iter()
                .filter(|name| match (principal, name.as_str()) {
                    ("admin", _) => true,
                    ("guest", _) | (_, "gateway_restart") => false,
                    ("oncall", name) => name != "b__test_error_handling",
                    (_, name) => ["b__greet", "b__test_simple_text", "get_events"].contains(&name),
                })
                .collect();
            assert_eq!(
                listed.iter().collect::<Vec<_>>(),
                expected,
                "{principal} {dialect:?}"
            );
            let call = async |name: &str| {
                let members = format!(r#""name":{name:?},"arguments":{{"name":"Ada"}}"#);
                roles
                    .request(principal, dialect, "tools/call", name, &members)
                    .await
            };
            let unknown = shape(&call("b__unknown").await, "b__unknown");
            for name in [
                "b__greet",
                "b:greet",
                "b.greet",
                "b__test_error_handling",
                "gateway_restart",
            ] {
                let reply = call(name).await;
                let published = name.replace([':', '.'], "__");
                if listed.contains(&published) {
                    assert_lacks(&reply.body, "not found");
                } else {
                    assert_eq!(
                        shape(&reply, name),
                        unknown,
                        "{principal} {dialect:?} {name}"
                    );
                    for hidden in all.iter().filter(|name| !listed.contains(name)) {
                        assert_lacks(&reply.body.replace(&*published, ""), &format!("{hidden:?}"));
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn aliases_batches_and_headers_of_another_name_open_nothing() {
    let roles = Roles::start("").await;
    let bearer = bearer("guest");
    let token = ("authorization", bearer.as_str());
    let greet = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
    let call = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": greet});
    let bodies = [
        call("mcp.callTool"),
        json!([call("tools/call"), call("mcp.callTool")]),
        json!({"jsonrpc": "2.0", "id": 1, "method": "mcp.listTools"}),
    ];
    for body in bodies {
        let reply = roles.0.post_with(&[token], body.to_string()).await;
        assert_lacks(&reply.body, "Hello");
        assert_lacks(&reply.body, "test_simple");
    }
    let info = json!({"jsonrpc": "2.0", "id": 1, "method": "mcp.getServerInfo"});
    let info = roles.0.post_with(&[token], info.to_string()).await.json();
    assert_eq!(info["result"]["tools_count"], 0, "{info}");
    // The name in the header is that of an allowed tool.
    let members = r#""name":"b__test_error_handling","arguments":{}"#;
    let reply = roles
        .request("oncall", Dialect::Modern, "tools/call", "b__greet", members)
        .await;
    assert!(reply.json()["error"].is_object(), "{reply:?}");
}

#[tokio::test]
async fn prompts_resources_templates_and_completions_follow_the_role() {
    let roles = Roles::start("").await;
    for dialect in Dialect::ALL {
        for (principal, prompt, resource, template) in [
            ("reader", true, true, false),
            ("oncall", true, true, true),
            ("guest", false, false, false),
        ] {
            let list = async |method| roles.request(principal, dialect, method, "", "").await.body;
            let prompts = list("prompts/list").await;
            assert_eq!(
                prompts.contains("b__test_simple_prompt"),
                prompt,
                "{principal} {prompts}"
            );
            assert_eq!(
                prompts.contains("b__test_prompt_with"),
                principal == "oncall",
                "{prompts}"
            );
            let resources = list("resources/list").await;
            assert_eq!(
                resources.contains("test://static-text"),
                resource,
                "{principal}"
            );
            assert_eq!(
                resources.contains("test://static-binary"),
                principal == "oncall"
            );
            let templates = list("resources/templates/list").await;
            assert_eq!(
                templates.contains("test://template/"),
                template || principal == "reader",
                "{templates}"
            );
            let read = async |uri: &str| {
                let members = format!(r#""uri":{uri:?}"#);
                roles
                    .request(principal, dialect, "resources/read", uri, &members)
                    .await
            };
            let unknown = shape(&read("test://unknown").await, "test://unknown");
            for (uri, allowed) in [
                ("test://static-text", resource),
                ("test://static-binary", principal == "oncall"),
                ("test://template/8/data", resource),
                ("test://template/7/data", false),
                ("test://template/%37/data", false),
                ("test://template/8/../7/data", false),
            ] {
                let reply = read(uri).await;
                if allowed {
                    assert_contains(&reply.body, "contents");
                } else {
                    assert_eq!(shape(&reply, uri), unknown, "{principal} {dialect:?} {uri}");
                }
            }
            let completion = r#""ref":{"type":"ref/prompt","name":"b__test_prompt_with_arguments"},"argument":{"name":"arg1","value":""}"#;
            let reply = roles
                .request(principal, dialect, "completion/complete", "", completion)
                .await;
            assert_eq!(
                reply.body.contains("\"result\""),
                principal == "oncall",
                "{reply:?}"
            );
        }
    }
}

#[tokio::test]
async fn search_tools_and_call_tool_follow_the_role() {
    let roles = Roles::start("search_above = 5").await;
    let search = async |principal: &str, query: &str| {
        roles
            .call(principal, "search_tools", json!({"query": query}))
            .await
    };
    assert_contains(&search("reader", "greet").await, "b__greet");
    assert_lacks(&search("reader", "error").await, "b__test_error_handling");
    assert_contains(&search("admin", "error").await, "b__test_error_handling");
    assert_contains(
        &search("reader", "nonsense").await,
        "The 2 tools belong to these backends: b.",
    );
    assert_lacks(&search("guest", "greet").await, "b__greet");
    let by_call_tool = async |principal: &str, name: &str| {
        let arguments = json!({"name": name, "arguments": {"name": "Ada"}});
        roles.call(principal, "call_tool", arguments).await
    };
    for name in ["b__greet", "b:greet", "b.greet"] {
        assert_contains(&by_call_tool("reader", name).await, "Hello, Ada!");
        assert_lacks(&by_call_tool("guest", name).await, "Hello");
    }
    let unknown = by_call_tool("reader", "b__unknown").await;
    let denied = by_call_tool("reader", "b__test_error_handling").await;
    assert_eq!(denied.replace("test_error_handling", "unknown"), unknown);
}
