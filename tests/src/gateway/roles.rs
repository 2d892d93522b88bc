//! Roles: what a principal may list and use, in every dialect, method and spelling.

use serde_json::{Value, json};

use super::env::{Folder, Gateway, stdio_fixture, text};
use crate::harness::{
    Dialect, FakeService, Reply, Response, assert_contains, assert_lacks, binary, eventually,
    member_texts, wait_until,
};

const TOKENS: &str = "reader reader-has-a-token-of-32-characters
oncall oncall-has-a-token-of-32-characters
admin admin-has-a-token-of-32-characters!
guest guest-has-a-token-of-32-characters!
";

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
"#;

const PRINCIPALS: [&str; 4] = ["reader", "oncall", "admin", "guest"];

struct Roles(Gateway);

impl Roles {
    async fn start(more: &str) -> Self {
        let folder = Folder::new();
        let tokens = folder.write("tokens", TOKENS);
        let config = format!("{more}\n[backends.b]\n{}\n{ROLES}", stdio_fixture());
        let gateway = Gateway::start(folder, &config, &["--token-file", &tokens]).await;
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
    let line = TOKENS.lines().find(|line| line.starts_with(principal));
    let token = line.unwrap().split_once(' ').unwrap().1;
    format!("Bearer {token}")
}

/// The answer to a request for `name`, without the name, and without the list of available tools.
fn shape(reply: &Reply, name: &str) -> String {
    let error = reply.json()["error"].clone();
    assert!(error.is_object(), "{reply:?}");
    let text = json!([error["code"], error["message"], error["data"]["kind"]]).to_string();
    text.replace(name, "NAME")
}

/// What is listed can be called, and what is not is answered like a name that does not exist.
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

/// Each sees its own events; a denied request is recorded with its role and the line of the rule.
#[tokio::test]
async fn events_are_of_the_caller_unless_its_role_may_see_all() {
    let roles = Roles::start("").await;
    roles
        .call("reader", "b__greet", json!({"name": "Ada"}))
        .await;
    roles
        .call("oncall", "b__test_error_handling", json!({}))
        .await;
    let events = async |principal: &str| {
        let answer = roles
            .call(principal, "get_events", json!({"limit": 1000}))
            .await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let found: Value = serde_json::from_str(text(&answer["result"])).unwrap();
        let found = found.as_array().unwrap().clone();
        found
            .into_iter()
            .map(|event| event["metadata"].clone())
            .collect::<Vec<Value>>()
    };
    let denied = eventually("the denied call", async || {
        let found = events("oncall").await;
        found.into_iter().find(|event| event["outcome"] == "denied")
    })
    .await;
    assert_eq!(denied["item"], "b__test_error_handling", "{denied}");
    assert_contains(&denied["denial"], "role oncall: denied by line ");
    assert_contains(
        &denied["denial"],
        r#"roles.oncall.deny: "b__test_error_handling""#,
    );
    for principal in ["reader", "oncall"] {
        let mut found = events(principal).await;
        found.retain(|event| event["principal"] != principal);
        assert!(found.is_empty(), "{principal}: {found:?}");
    }
    let all: Vec<Value> = events("admin").await;
    for principal in ["reader", "oncall", "admin"] {
        assert!(
            all.iter().any(|event| event["principal"] == principal),
            "{principal}"
        );
    }
    let status = roles.call("reader", "gateway_status", json!({})).await;
    assert_lacks(&status, "backends");
}

/// A reload changes the lists at once, tells the clients, and a broken one keeps the roles.
#[tokio::test]
async fn roles_follow_the_file() {
    let roles = Roles::start("").await;
    let file = roles.0.folder.path("gateway.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let is_listed = async |name: &str| {
        roles
            .names("reader", Dialect::Modern)
            .await
            .contains(&name.to_owned())
    };
    assert!(!is_listed("b__echo").await);
    roles.0.folder.write(
        "gateway.toml",
        &config.replace("\"b__greet\",", "\"b__echo\","),
    );
    wait_until("the changed role", async || is_listed("b__echo").await).await;
    assert!(!is_listed("b__greet").await);
    let broken = config.replace("reader = \"reader\"", "reader = \"raeder\"");
    roles.0.folder.write("gateway.toml", &broken);
    roles.0.wait_for_log("did you mean").await;
    assert!(is_listed("b__echo").await);
}

/// Instructions, and the reason why a backend is down, are for those who may use it.
#[tokio::test]
async fn instructions_and_reasons_are_only_of_backends_that_the_role_uses() {
    let folder = Folder::new();
    let tokens = folder.write("tokens", TOKENS);
    let other = FakeService::start(|request| {
        let request: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let result = match request["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"}, "instructions": "Use c well."})
            }
            Some("tools/list") => {
                json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
            }
            _ => return Response::Http(405, "text/plain", "".into()),
        };
        Response::json(
            200,
            &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        )
    })
    .await;
    let backends = format!(
        "[backends.b]\n{}\n[backends.c]\nurl = {:?}\nprotocol = \"2025-11-25\"\n[backends.gone]\ncommand = [\"/nonexistent\"]\n",
        stdio_fixture(),
        other.url
    );
    let config = format!("{backends}{ROLES}");
    let gateway = Gateway::start(folder, &config, &["--token-file", &tokens]).await;
    let roles = Roles(gateway);
    wait_until("the tools", async || {
        roles
            .names("admin", Dialect::Modern)
            .await
            .iter()
            .any(|name| name.starts_with("c__"))
    })
    .await;
    let why = async |principal| roles.call(principal, "gone__anything", json!({})).await;
    assert_contains(&why("admin").await, "backend gone");
    assert_lacks(&why("oncall").await, "backend gone");
    let members = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#;
    for (principal, sees) in [("admin", true), ("oncall", false), ("guest", false)] {
        let dialect = Dialect::Unversioned;
        let shown = roles
            .request(principal, dialect, "initialize", "", members)
            .await
            .body;
        assert_eq!(shown.contains("Use c well."), sees, "{principal} {shown}");
    }
}

/// `mcp-gateway explain` says the deciding line, and its exit code tells the outcome.
#[tokio::test]
async fn explain_names_the_deciding_line() {
    let folder = Folder::new();
    let config = format!("[backends.b]\n{}\n{ROLES}", stdio_fixture());
    let file = folder.write("gateway.toml", &config);
    let broken = folder.write("broken.toml", &config.replace("\"reader\"]", "\"raeder\"]"));
    let line = |text: &str| {
        let at = config.lines().position(|line| line.contains(text));
        1 + at.unwrap()
    };
    let denied = format!(
        "denied by line {}: roles.oncall.deny: \"b__test_error_handling\"",
        line("deny = [\"b__")
    );
    let allowed = format!(
        "allowed by line {}: roles.oncall.allow: \"b__*\"",
        line("allow = [\"b__*")
    );
    let decoded = format!(
        "denied by line {}: roles.reader.deny: \"test://template/7*\"",
        line("template/7")
    );
    let fault = r#"roles.oncall.inherits: there is no role "raeder"; did you mean "reader"?"#;
    for (file, principal, item, code, expected) in [
        (
            &file,
            "oncall",
            "b__test_error_handling",
            1,
            format!("role oncall: {denied}"),
        ),
        (
            &file,
            "oncall",
            "b__echo",
            0,
            format!("role oncall: {allowed}"),
        ),
        (
            &file,
            "reader",
            "test://template/%37",
            1,
            format!("role reader: {decoded}"),
        ),
        (
            &file,
            "nobody",
            "b__greet",
            1,
            "role none: denied: no rule allows it".to_owned(),
        ),
        (
            &broken,
            "reader",
            "b__greet",
            78,
            format!("{broken}:{}: {fault}", line("inherits")),
        ),
    ] {
        let args = ["explain", "--config", file, "--as", principal, item];
        let run = tokio::process::Command::new(binary("mcp-gateway"))
            .args(args)
            .output();
        let run = run.await.unwrap();
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert_eq!(String::from_utf8_lossy(&run.stdout).trim_end(), expected);
    }
}
