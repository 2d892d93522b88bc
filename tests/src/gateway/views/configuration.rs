//! Views and the file: changes while the gateway runs, mistakes, `explain`, and the search for tools.

use std::time::Duration;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice};
use serde_json::{Value, json};

use super::super::env::{CALL_TIMEOUT, Folder, stdio_fixture, text};
use super::super::input_requests::{Messages, recorder};
use super::{ROLES, TOKENS, VIEWS, Views, path};
use crate::harness::{Dialect, assert_contains, assert_lacks};

/// A client of this view, with a stream for changes of its lists.
pub(super) async fn listener(views: &Views, view: &str, era: EraChoice) -> (Client, Messages) {
    let token = TOKENS.lines().find(|line| line.starts_with("admin"));
    let token = token.unwrap().split(' ').nth(1).unwrap();
    let url = format!("{}{}", views.0.url, path(view));
    let endpoint = Endpoint::new(&url).unwrap().bearer(token).unwrap();
    let (handler, messages) = recorder();
    let client = Client::builder().era(era).timeout(CALL_TIMEOUT);
    let client = client.handler(handler).http(endpoint).unwrap();
    let capabilities = json!({"elicitation": {}});
    let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
    client.connect(&info).await.unwrap();
    let filter =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let listening = client.listen(&filter).await.unwrap();
    tokio::spawn(listening.closed());
    (client, messages)
}

fn methods(messages: &mut Messages) -> Vec<String> {
    let next = || messages.try_recv().ok().map(|(method, _)| method);
    std::iter::from_fn(next).collect()
}

/// A change of one view is told to its sessions only, and only if it changes one of its lists. A mistake keeps what was.
#[tokio::test]
async fn views_follow_the_file() {
    let views = Views::start().await;
    let file = std::fs::read_to_string(views.0.folder.path("gateway.toml")).unwrap();
    let write = |text: &str| views.0.folder.write("gateway.toml", text);
    let mut listeners = Vec::new();
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        for view in ["support", "other", ""] {
            listeners.push((view, listener(&views, view, era).await));
        }
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    listeners
        .iter_mut()
        .for_each(|(_, (_, messages))| drop(methods(messages)));
    // Lines that move, and another title.
    let moved = format!("# moved\n\n{file}").replace("Support desk", "Support");
    write(&moved);
    tokio::time::sleep(Duration::from_secs(4)).await;
    for (view, (_, messages)) in &mut listeners {
        assert!(methods(messages).is_empty(), "{view}");
    }
    write(&moved.replace("\"say_hello\"", "\"hello\""));
    let names = views
        .until(("support", "admin"), |names| {
            names.contains(&"hello".to_owned())
        })
        .await;
    assert!(!names.contains(&"say_hello".to_owned()), "{names:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (view, (_, messages)) in &mut listeners {
        let expected: &[&str] = match *view {
            "support" => &["notifications/tools/list_changed"],
            _ => &[],
        };
        assert_eq!(methods(messages), expected, "{view}");
    }
    write(&moved.replace("backends = [\"b\"]", "backends = [\"bb\"]"));
    views.0.wait_for_log("there is no backend bb").await;
    assert_contains(&views.0.log(), "views.support.backends");
    let names = views.names(("support", "admin"), Dialect::Modern).await;
    assert!(names.contains(&"hello".to_owned()), "{names:?}");
    // A view that is gone is unknown, also to its sessions.
    let at = moved.find("[views.support]").unwrap();
    let end = moved.find("[views.other]").unwrap();
    let without = format!("{}{}", &moved[..at], &moved[end..]).replace("\"support\"", "\"other\"");
    write(&without);
    crate::harness::wait_until("the view to go", async || {
        let reply = views
            .request(("support", "admin"), Dialect::Modern, "tools/list", "", "")
            .await;
        reply.status == 404
    })
    .await;
}

/// `explain --view` prints the deciding line, for the name in the view and for the published one.
#[tokio::test]
async fn explain_names_the_line_of_the_view() {
    let folder = Folder::new();
    let config = format!(
        "[backends.b]\n{fixture}\n[backends.c]\n{fixture}\n{ROLES}{VIEWS}",
        fixture = stdio_fixture()
    );
    folder.write("gateway.toml", &config);
    for (view, principal, item, code, parts) in [
        (
            "support",
            "oncall",
            "say_hello",
            0,
            &[
                "role oncall: allowed by line",
                "; view support: allowed by line",
                "views.support.allow: \"b__greet\"",
            ][..],
        ),
        (
            "support",
            "oncall",
            "b__greet",
            1,
            &["view support: denied: it is say_hello there"],
        ),
        (
            "support",
            "admin",
            "b__test_image_content",
            1,
            &[
                "view support: denied by line",
                "views.support.deny: \"b__test_image_content\"",
            ],
        ),
        (
            "support",
            "admin",
            "c__greet",
            1,
            &["view support: denied: of none of its backends"],
        ),
        (
            "support",
            "admin",
            "gateway_status",
            0,
            &["view support: allowed: a tool of the gateway"],
        ),
        (
            "support",
            "admin",
            "b:greet",
            1,
            &["view support: denied: it is say_hello there"],
        ),
        (
            "support",
            "admin",
            "test://static-text",
            0,
            &["if one of its backends has it"],
        ),
        (
            "support",
            "oncall",
            "fail",
            1,
            &["role oncall: denied by line"],
        ),
        (
            "other",
            "desk",
            "c__greet",
            1,
            &[
                "role desk: denied: line",
                "roles.desk.views: \"support\" does not have other",
            ],
        ),
        (
            "suport",
            "admin",
            "b__greet",
            1,
            &["there is no view \"suport\"; did you mean \"support\"?"],
        ),
        (
            "support",
            "admin",
            "test://static-binary",
            1,
            &["view support: denied by line"],
        ),
    ] {
        let args = ["explain", "--as", principal, "--view", view, item];
        let (found, output) = folder.command("memory", &args).await;
        for part in parts {
            assert_contains(&output, part);
        }
        assert_eq!(found, code, "{output}");
    }
}

/// A view with few tools lists them, and one with many has the search, which finds its tools by their names there.
#[tokio::test]
async fn search_is_in_the_view() {
    let tables = format!("{ROLES}{VIEWS}[views.small]\nallow = [\"b__greet\", \"b__echo\"]\n");
    let views = Views::start_with("search_above = 5", &tables).await;
    let at = |view| (view, "admin");
    let small = views.names(at("small"), Dialect::Modern).await;
    assert_eq!(small, ["b__echo", "b__greet"]);
    let many = views.names(at("support"), Dialect::Modern).await;
    let expected = ["gateway_status", "get_events", "search_tools", "call_tool"];
    assert!(
        expected
            .iter()
            .all(|name| many.contains(&(*name).to_owned())),
        "{many:?}"
    );
    assert_eq!(many.len(), expected.len(), "{many:?}");
    let search = async |query: &str| {
        let arguments = json!({"query": query, "limit": 50});
        let reply = views
            .call("support", "admin", "search_tools", arguments)
            .await;
        text(&reply.json()["result"]).to_owned()
    };
    let found = search("hello somebody").await;
    assert_contains(&found, "say_hello");
    assert_lacks(&found, "b__greet");
    assert_lacks(&search("image").await, "b__test_image_content");
    let call = async |name: &str| -> Value {
        let arguments = json!({"name": name, "arguments": {"name": "Ada"}});
        views
            .call("support", "admin", "call_tool", arguments)
            .await
            .json()
    };
    assert_eq!(text(&call("say_hello").await["result"]), "Hello, Ada!");
    for name in [
        "b__greet",
        "b:greet",
        "c__greet",
        "b__test_image_content",
        "b__none",
    ] {
        let answer = call(name).await;
        assert_contains(&text(&answer["result"]), "There is no tool");
        assert_eq!(answer["result"]["isError"], true, "{name}");
    }
}

/// Patterns for arguments, limits and rules that ask a person are about the published name, whatever a view calls the tool.
#[tokio::test]
async fn rules_are_about_the_published_name() {
    let tables = r#"
[roles.others]
allow = ["b__echo"]
[roles.careful]
inherits = ["others"]
allow = ["b__greet"]
arguments = { name = "A*" }
limit = "3/day"
confirm = ["b__echo"]
[principals]
default = "careful"
[views.v.tools.b__greet]
name = "hello"
[views.v.tools.b__echo]
name = "repeat"
"#;
    let folder = Folder::new();
    let config = format!("[backends.b]\n{}\n{tables}", stdio_fixture());
    let gateway = super::Gateway::start(folder, &config, &[]).await;
    let call = async |path: &str, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        gateway.post_to(path, &[], body.to_string()).await.json()
    };
    crate::harness::wait_until("the tools", async || {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        gateway
            .post_to("/v", &[], body)
            .await
            .body
            .contains("\"hello\"")
    })
    .await;
    let answer = call("/v", "hello", json!({"name": "Eve"})).await;
    assert_contains(
        &text(&answer["result"]),
        "You may call hello, but not with these values of: name",
    );
    let answer = call("/v", "repeat", json!({"message": "x"})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_lacks(&text(&answer["result"]), "There is no tool");
    let answer = call("/v", "hello", json!({"name": "Ada"})).await;
    assert_eq!(text(&answer["result"]), "Hello, Ada!");
    call("", "b__greet", json!({"name": "Ada"})).await;
    let answer = call("/v", "hello", json!({"name": "Ada"})).await;
    assert_contains(&text(&answer["result"]), "too many calls");
    // Without tokens the help names the views.
    let help = gateway.request("GET", "/none", &[]).await;
    assert_contains(&help.body, "/mcp/v");
}
