//! Roles: items that a principal may list and use, in every dialect, method and spelling.

pub(super) mod arguments;
mod configuration;
mod events;
pub(super) mod page;

use serde_json::json;

use self::arguments::{CONDITIONS, REFUSED};
use super::env::{Folder, Gateway, shape, stdio_fixture, tokens};
use super::views;
use crate::harness::{Dialect, assert_contains, assert_lacks, rpc, wait_until};

/// The token file gives one of them a role, which goes before `[principals]`.
const TOKENS: [&str; 5] = ["reader", "oncall", "admin", "guest", "promoted role=reader"];

pub(super) const ROLES: &str = r#"
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

async fn start(more: &str) -> Gateway {
    start_with(more, "", &[]).await
}

/// With more roles, and with these roles of principals.
async fn start_with(more: &str, roles: &str, principals: &[(&str, &str)]) -> Gateway {
    let folder = Folder::new();
    let tokens = folder.write("tokens", &tokens(&TOKENS));
    let mut all = format!("{roles}{ROLES}");
    for (principal, role) in principals {
        all = all.replace(&format!("{principal} = \"{principal}\"\n"), "");
        all.push_str(&format!("{principal} = \"{role}\"\n"));
    }
    let config = format!("{more}\n[backends.b]\nFIXTURE\n{all}");
    let events = folder.path("events.db");
    let args = ["--token-file", &tokens, "--events", &events];
    let gateway = Gateway::start(folder, &config, &args).await;
    wait_until("the tools", async || {
        let status = gateway.told("admin", "gateway_status", json!({})).await;
        status.contains(r#"\"status\":\"running\""#) && !status.contains(r#"\"tools\":0"#)
    })
    .await;
    gateway
}

/// A tool that is listed can be called, and one that is not is answered like a name that does not exist.
#[tokio::test]
async fn tool_that_a_role_does_not_allow_does_not_exist_in_any_dialect() {
    let roles = start("").await;
    let all = roles.names("admin", Dialect::Modern).await;
    assert!(all.len() > 20, "{all:?}");
    for principal in PRINCIPALS {
        for dialect in Dialect::ALL {
            let listed = roles.names(principal, dialect).await;
            let is_seen = |name: &str| match (principal, name) {
                ("admin", _) => true,
                ("guest", _) | (_, "gateway_restart") => false,
                ("oncall", name) => name != "b__test_error_handling",
                (_, name) => ["b__greet", "b__test_simple_text", "get_events"].contains(&name),
            };
            let mut expected = all.clone();
            expected.retain(|name| is_seen(name));
            assert_eq!(listed, expected, "{principal} {dialect:?}");
            let call = async |name: &str| {
                let members = format!(r#""name":{name:?},"arguments":{{"name":"Ada"}}"#);
                let call = roles.ask(principal, dialect, "tools/call", name, &members);
                call.await
            };
            let unknown = shape(&call("b__unknown").await, "b__unknown");
            let names = "b__greet b:greet b.greet b__test_error_handling gateway_restart";
            for name in names.split(' ') {
                let reply = call(name).await;
                let published = name.replace([':', '.'], "__");
                if listed.contains(&published) {
                    assert_lacks(&reply.body, "not found");
                } else {
                    let found = shape(&reply, name);
                    assert_eq!(found, unknown, "{principal} {dialect:?} {name}");
                    for hidden in all.iter().filter(|name| !listed.contains(name)) {
                        assert_lacks(&reply.body.replace(&*published, ""), &format!("{hidden:?}"));
                    }
                }
            }
        }
    }
    let listed = roles.post_by("guest", rpc("mcp.listTools", json!({})));
    assert_lacks(&listed.await.body, "test_simple");
    let info = rpc("mcp.getServerInfo", json!({}));
    let info = roles.post_by("guest", info).await.json();
    assert_eq!(info["result"]["tools_count"], 0, "{info}");
}

#[tokio::test]
async fn prompts_resources_templates_and_completions_follow_the_role() {
    let roles = start("").await;
    for dialect in Dialect::ALL {
        // Whether it may see something, and everything.
        for (principal, some, all) in [
            ("reader", true, false),
            ("oncall", true, true),
            ("guest", false, false),
        ] {
            for (method, item, is_seen) in [
                ("prompts/list", "b__test_simple_prompt", some),
                ("prompts/list", "b__test_prompt_with", all),
                ("resources/list", "test://static-text", some),
                ("resources/list", "test://static-binary", all),
                ("resources/templates/list", "test://template/", some),
            ] {
                let listed = roles.ask(principal, dialect, method, "", "").await.body;
                assert_eq!(
                    listed.contains(item),
                    is_seen,
                    "{principal} {item} {listed}"
                );
            }
            let read = async |uri: &str| {
                let members = format!(r#""uri":{uri:?}"#);
                let read = roles.ask(principal, dialect, "resources/read", uri, &members);
                read.await
            };
            let unknown = shape(&read("test://unknown").await, "test://unknown");
            for (uri, allowed) in [
                ("test://static-text", some),
                ("test://static-binary", all),
                ("test://template/8/data", some),
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
            let reply = roles.ask(principal, dialect, "completion/complete", "", completion);
            let reply = reply.await.body;
            assert_eq!(reply.contains("\"result\""), all, "{reply}");
        }
    }
}

/// `call_tool` is judged by the tool that it calls, and by its arguments.
#[tokio::test]
async fn search_tools_and_call_tool_follow_the_role() {
    let limited = "[roles.caller]\ninherits = [\"judged\"]\nlimit = \"2/h\"\n";
    let tables = format!("{CONDITIONS}{limited}");
    let roles = start_with("search_above = 5", &tables, &[("oncall", "caller")]).await;
    for (principal, query, found, is_found) in [
        ("reader", "greet", "b__greet", true),
        ("reader", "error", "b__test_error_handling", false),
        ("admin", "error", "b__test_error_handling", true),
        (
            "reader",
            "nonsense",
            "The 2 tools belong to these backends: b.",
            true,
        ),
        ("guest", "greet", "b__greet", false),
    ] {
        let query = json!({"query": query});
        let text = roles.told(principal, "search_tools", query).await;
        assert_eq!(text.contains(found), is_found, "{principal}: {text}");
    }
    let by_call_tool = async |principal: &str, name: &str, value: &str| {
        let arguments = json!({"name": name, "arguments": {"name": value}});
        roles.told(principal, "call_tool", arguments).await
    };
    for name in ["b__greet", "b:greet", "b.greet"] {
        assert_contains(&by_call_tool("reader", name, "Ada").await, "Hello, Ada!");
        assert_lacks(&by_call_tool("guest", name, "Ada").await, "Hello");
    }
    for (value, expected) in [
        ("db", REFUSED),
        ("web-1", "Hello, web-1!"),
        ("web-1", "Hello, web-1!"),
        ("web-1", "Try again in"),
    ] {
        assert_contains(&by_call_tool("oncall", "b.greet", value).await, expected);
    }
    let unknown = by_call_tool("reader", "b__unknown", "Ada").await;
    let denied = by_call_tool("reader", "b__test_error_handling", "Ada").await;
    assert_eq!(denied.replace("test_error_handling", "unknown"), unknown);
}

/// Each line has the options, the exit code, and the parts of the answer. `«text»` is the number of the line of the file
/// that has this text.
const OF_ROLES: &str = r#"
--as oncall b__test_error_handling => 1: role oncall: denied by line «deny = ["b__»: roles.oncall.deny: "b__test_error_handling"
--as oncall b__echo => 0: role oncall: allowed by line «allow = ["b__*»: roles.oncall.allow: "b__*"
--as oncall b__echo --args {} => 0: role oncall: allowed by line «allow = ["b__*»: roles.oncall.allow: "b__*"
--as reader test://template/%37 => 1: role reader: denied by line «template/7»: roles.reader.deny: "test://template/7*"
--as nobody b__greet => 1: role none: denied: no rule allows it
"#;

/// Patterns for arguments limit the rules of their table, also where these are inherited; of the limits the own one
/// counts, else the strictest.
const INHERITED: &str = r#"
[roles.a]
allow = ["b__echo"]
arguments = { x = "1" }
limit = "10/min"
[roles.b]
inherits = ["a"]
limit = "5/min"
[roles.c]
inherits = ["a", "b"]
allow = ["b__greet", "b__*"]
arguments = { x = ["1", "2*"], y = true }
[roles.d]
inherits = ["c"]
limit = "100/s"

[principals]
c = "c"
d = "d"
"#;

const OF_ARGUMENTS: &str = r#"
--as c b:greet => 0: role c: allowed by line «allow = ["b__greet"»: roles.c.allow: "b__greet", if its arguments match line «2*»: roles.c.arguments
--as c b__echo --args {"x":"1"} => 0: role c: allowed by line | ; its arguments match line «x = "1" }»: roles.a.arguments | ; limited by line «5/min»: roles.b.limit: 5/min
--as d b__echo --args {"x":"1"} => 0: ; its arguments match line «x = "1" }»: roles.a.arguments | ; limited by line «100/s»: roles.d.limit: 100/s
--as c b:echo --args {"x":"2","y":true} => 0: ; its arguments match line «2*»: roles.c.arguments
--as d b:echo --args {"x":"2","y":true} => 0: ; its arguments match line «2*»: roles.c.arguments
--as c b.greet --args {"x":"2","y":true} => 0: ; its arguments match line «2*»: roles.c.arguments
--as d b.greet --args {"x":"2","y":true} => 0: ; its arguments match line «2*»: roles.c.arguments
--as c b:greet --args {"x":"2"} => 1: role c: denied by line «2*»: roles.c.arguments: the call has no "y"
--as d b:greet --args {"x":"2"} => 1: role d: denied by line «2*»: roles.c.arguments: the call has no "y"
--as c b__slow --args {"x":"3","y":true} => 1: role c: denied by line «2*»: roles.c.arguments: "x" does not match
--as d b__slow --args {"x":"3","y":true} => 1: role d: denied by line «2*»: roles.c.arguments: "x" does not match
"#;

const OF_VIEWS: &str = r#"
--view support --as oncall say_hello => 0: role oncall: allowed by line | ; view support: allowed by line | views.support.allow: "b__greet"
--view support --as oncall b__greet => 1: view support: denied: it is say_hello there
--view support --as admin b__test_image_content => 1: view support: denied by line | views.support.deny: "b__test_image_content"
--view support --as admin c__greet => 1: view support: denied: of none of its backends
--as reader b__greet => 0: role reader: allowed by line | roles.reader.allow: "b__greet", if its effect is one of: reads
--view support --as admin b:echo => 0: view support: allowed by line
--view support --as admin b__slow => 1: view support: denied: no rule allows it
--view support --as admin n8n://x => 1: view support: denied: no rule allows it
--view support --as admin gateway_status => 0: view support: allowed: a tool of the gateway
--view support --as admin call_tool => 0: view support: allowed: a tool of the gateway
--view support --as admin gateway_restart => 1: view support: denied: `own` does not have it
--view all --as admin c__greet => 0: view all: allowed by line
--view support --as admin b:greet => 1: view support: denied: it is say_hello there
--view support --as admin test://static-text => 0: if one of its backends has it
--view support --as oncall fail => 1: role oncall: denied by line
--view other --as desk c__greet => 1: role desk: denied: line | roles.desk.views: "support" does not have other
--view suport --as admin b__greet => 1: there is no view "suport"; did you mean "support"?
--view support --as admin test://static-binary => 1: view support: denied by line
"#;

/// A rule about the resources of one backend, and calls that need a person.
const OF_PEOPLE: &str = r#"
--as q test://static-text => 0: if it is of the backend b: allowed by line «b:test»: roles.q.allow: "b:test://*"
--as q other://x => 1: role q: denied: no rule allows it
--as q b__slow => 0: role q: allowed by line | ; a call needs a person by line «approve»: approvals.approve: "b__slow"
--as q b:slow => 0: ; a call needs a person by line «approve»: approvals.approve: "b__slow"
--as q b__echo => 0: ; a call needs a person by line «confirm»: roles.q.confirm: "b__echo"
"#;

const PEOPLE: &str = r#"
[approvals]
approve = ["b__slow"]
[roles.q]
allow = ["b:test://*", "b__*"]
confirm = ["b__echo"]
[principals]
q = "q"
"#;

const OF_A_MISTAKE: &str = r#"
--as reader b__greet => 78: gateway.toml:«inherits»: roles.oncall.inherits: there is no role "raeder"; did you mean "reader"?
"#;

#[tokio::test]
async fn deciding_line_is_named() {
    let fixture = stdio_fixture();
    let of_roles = format!("[backends.b]\n{fixture}\n{ROLES}");
    let (roles, views) = (views::ROLES, views::VIEWS);
    let of_views = format!("[backends.b]\n{fixture}\n[backends.c]\n{fixture}\n{roles}{views}");
    let of_arguments = format!("[backends.b]\n{fixture}\n{INHERITED}");
    let of_people = format!("[backends.b]\n{fixture}\n{PEOPLE}");
    let mistake = of_roles.replace("\"reader\"]", "\"raeder\"]");
    for (config, cases) in [
        (of_roles, OF_ROLES),
        (of_views, OF_VIEWS),
        (of_arguments, OF_ARGUMENTS),
        (of_people, OF_PEOPLE),
        (mistake, OF_A_MISTAKE),
    ] {
        let folder = Folder::new();
        folder.write("gateway.toml", &config);
        for case in cases.lines().filter(|line| !line.is_empty()) {
            let (options, expected) = case.split_once(" => ").unwrap();
            let (code, expected) = expected.split_once(": ").unwrap();
            let args: Vec<&str> = "explain".split(' ').chain(options.split(' ')).collect();
            let (found, output) = folder.command("memory", &args).await;
            assert_eq!(found.to_string(), code, "{case} {output}");
            for part in expected.split(" | ") {
                assert_contains(&output, &with_lines(part, &config));
            }
        }
    }
}

fn with_lines(part: &str, config: &str) -> String {
    let Some((before, rest)) = part.split_once('«') else {
        return part.to_owned();
    };
    let (text, after) = rest.split_once('»').unwrap();
    let at = config.lines().position(|line| line.contains(text));
    format!("{before}{}{}", at.unwrap() + 1, with_lines(after, config))
}
