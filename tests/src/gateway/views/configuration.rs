//! Views and the file: changes while the gateway runs, mistakes, `explain`, and the search for tools.

use std::time::Duration;

use mcp_client::{Client, EraChoice};
use serde_json::{Value, json};

use super::super::env::{Folder, Gateway, text};
use super::{ROLES, VIEWS, start, start_with};
use crate::harness::{
    Dialect, Messages, assert_contains, assert_lacks, recorder, rpc_call, wait_until,
};

/// A client of this view, with a stream for changes of its lists.
pub(super) async fn listener(views: &Gateway, view: &str, era: EraChoice) -> (Client, Messages) {
    let (handler, messages) = recorder();
    let client = views.client_by((view, "admin"), era, Some(handler)).await;
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
    let views = start().await;
    let file = views.configuration();
    let write = |text: &str| views.configure(text);
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
    views.until_sees(("support", "admin"), "hello").await;
    let names = views.names(("support", "admin"), Dialect::Modern).await;
    assert!(!names.contains(&"say_hello".to_owned()), "{names:?}");
    for (view, (_, messages)) in &mut listeners {
        if *view == "support" {
            let (method, _) = messages.recv().await.unwrap();
            assert_eq!(method, "notifications/tools/list_changed");
        }
    }
    // Real time, to see that nothing else is told.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (view, (_, messages)) in &mut listeners {
        assert_eq!(methods(messages), [""; 0], "{view}");
    }
    write(&moved.replace("backends = [\"b\"]", "backends = [\"bb\"]"));
    views.wait_for_log("there is no backend bb").await;
    assert_contains(&views.log(), "views.support.backends");
    let names = views.names(("support", "admin"), Dialect::Modern).await;
    assert!(names.contains(&"hello".to_owned()), "{names:?}");
    // A view that is gone is unknown, also to its sessions.
    let at = moved.find("[views.support]").unwrap();
    let end = moved.find("[views.other]").unwrap();
    let without = format!("{}{}", &moved[..at], &moved[end..]).replace("\"support\"", "\"other\"");
    write(&without);
    wait_until("the view to go", async || {
        let listed = views.ask(("support", "admin"), Dialect::Modern, "tools/list", "", "");
        listed.await.status == 404
    })
    .await;
}

/// A view with few tools lists them, and one with many has the search, which finds its tools by their names there.
#[tokio::test]
async fn search_is_in_the_view() {
    let tables = format!("{ROLES}{VIEWS}[views.small]\nallow = [\"b__greet\", \"b__echo\"]\n");
    let views = start_with("search_above = 5", &tables).await;
    let at = |view| (view, "admin");
    let small = views.names(at("small"), Dialect::Modern).await;
    assert_eq!(small, ["b__echo", "b__greet"]);
    let mut many = views.names(at("support"), Dialect::Modern).await;
    many.sort();
    assert_eq!(
        many,
        ["call_tool", "gateway_status", "get_events", "search_tools"]
    );
    let search = async |query: &str| {
        let arguments = json!({"query": query, "limit": 50});
        let reply = views.call_by(at("support"), "search_tools", arguments);
        text(&reply.await.json()["result"]).to_owned()
    };
    let found = search("hello somebody").await;
    assert_contains(&found, "say_hello");
    assert_lacks(&found, "b__greet");
    assert_lacks(&search("image").await, "b__test_image_content");
    let call = async |name: &str| -> Value {
        let arguments = json!({"name": name, "arguments": {"name": "Ada"}});
        let reply = views.call_by(at("support"), "call_tool", arguments);
        reply.await.json()
    };
    assert_eq!(text(&call("say_hello").await["result"]), "Hello, Ada!");
    for name in "b__greet b:greet c__greet b__test_image_content b__none".split(' ') {
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
    let config = format!("[backends.b]\nFIXTURE\n{tables}");
    let gateway = Gateway::start(Folder::new(), &config, &[]).await;
    let call = async |path: &str, name: &str, arguments: Value| {
        let body = rpc_call(name, arguments).to_string();
        gateway.post_to(path, &[], body).await.json()
    };
    wait_until("the tools", async || {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let listed = gateway.post_to("/v", &[], body).await.body;
        listed.contains("\"hello\"")
    })
    .await;
    let answer = call("/v", "hello", json!({"name": "Eve"})).await;
    let refusal = "You may call hello, but not with these values of: name";
    assert_contains(text(&answer["result"]), refusal);
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
