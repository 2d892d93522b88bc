//! Patterns for arguments, and limits, of roles: a call that a role allows is judged with its arguments, no matter which request brings it.

use serde_json::{Value, json};

use super::super::env::text;
use super::{Roles, bearer};
use crate::harness::{Dialect, assert_contains, assert_lacks, binary, eventually};

/// Beside the roles of the other tests.
const CONDITIONS: &str = r#"
[roles.judged]
inherits = ["careful"]
allow = ["b__greet"]
arguments = { name = "web-*" }
[roles.careful]
allow = ["b__echo"]
arguments = { message = ["yes", "maybe*"] }
[roles.limited]
allow = ["b__greet", "b__echo"]
limit = "2/h"
own = ["gateway_status"]
"#;

async fn start(more: &str) -> Roles {
    let replaced = [("guest", "judged"), ("reader", "limited")];
    Roles::start_with(more, CONDITIONS, &replaced).await
}

const REFUSED: &str = "You may call b__greet, but not with these values of: name.";

/// The tool is listed. A call of it is judged in every dialect and spelling, and as its backend reads it.
#[tokio::test]
async fn call_is_judged_with_its_arguments_in_every_dialect_and_spelling() {
    let roles = start("").await;
    for dialect in Dialect::ALL {
        assert!(
            roles
                .names("guest", dialect)
                .await
                .contains(&"b__greet".to_owned())
        );
        for name in ["b__greet", "b:greet", "b.greet"] {
            for (arguments, allowed) in [
                (r#"{"name":"web-1"}"#, true),
                (r#"{"name":"web-1","toolCallId":"7"}"#, true),
                (r#"{"name":"db"}"#, false),
                (r#"{}"#, false),
                (r#"{"name":5}"#, false),
                (r#"{"name":"web-1","name":"db"}"#, false),
                (r#"{"name":"web-1","n\u0061me":"db"}"#, false),
                (r#"{"name":"web-1","NAME":"db"}"#, false),
            ] {
                let members = format!(r#""name":{name:?},"arguments":{arguments}"#);
                let reply = roles
                    .request("guest", dialect, "tools/call", name, &members)
                    .await;
                let what = format!("{dialect:?} {name} {arguments}: {reply:?}");
                assert_eq!(reply.body.contains("Hello, web-1!"), allowed, "{what}");
                if !allowed {
                    assert_lacks(&reply.body, "Hello");
                    assert_contains(&reply.body, REFUSED);
                    assert_lacks(&reply.body, "web-*");
                    assert_eq!(reply.json()["result"]["isError"], true, "{what}");
                }
            }
        }
        // The patterns of the inherited role.
        for (message, allowed) in [("yes", true), ("no", false)] {
            let members = format!(r#""name":"b__echo","arguments":{{"message":{message:?}}}"#);
            let reply = roles
                .request("guest", dialect, "tools/call", "b__echo", &members)
                .await;
            assert_eq!(!reply.body.contains("You may call"), allowed, "{reply:?}");
        }
    }
}

#[tokio::test]
async fn other_methods_batches_tasks_and_repeated_members_open_nothing() {
    let roles = start("").await;
    let bearer = bearer("guest");
    let token = ("authorization", bearer.as_str());
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":{method:?},"params":{params}}}"#)
    };
    let good = r#"{"name":"b__greet","arguments":{"name":"web-1"}}"#;
    let bad = r#"{"name":"b__greet","arguments":{"name":"db"}}"#;
    let reply = roles
        .0
        .post_with(&[token], call("mcp.callTool", good))
        .await;
    assert_contains(&reply.body, "Hello, web-1!");
    for body in [
        call("mcp.callTool", bad),
        format!(
            "[{},{}]",
            call("tools/call", bad),
            call("mcp.callTool", bad)
        ),
        call(
            "tools/call",
            r#"{"name":"b__greet","arguments":{"name":"web-1"},"arguments":{"name":"db"}}"#,
        ),
        call(
            "tools/call",
            r#"{"name":"b__echo","name":"b__greet","arguments":{"message":"x","name":"db"}}"#,
        ),
    ] {
        let reply = roles.0.post_with(&[token], body.clone()).await;
        assert_lacks(&reply.body, "Hello");
        assert_contains(&reply.body, "error");
    }
    // A client that takes tasks.
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
    let params =
        |name: &str| format!(r#"{{{meta},"name":"b__greet","arguments":{{"name":{name:?}}}}}"#);
    let headers = [
        token,
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "b__greet"),
    ];
    for (name, expected) in [("web-1", "Hello, web-1!"), ("db", REFUSED)] {
        let reply = roles
            .0
            .post_with(&headers, call("tools/call", &params(name)))
            .await;
        assert_contains(&reply.body, expected);
    }
}

/// A call of 2025-11-25 that is to run as a task is judged before an operator is asked.
#[tokio::test]
async fn legacy_task_is_judged_with_its_arguments() {
    let role = "[roles.tasks]\nallow = [\"b__greet\"]\napprove = [\"b__greet\"]\n\
        arguments = { name = \"web-*\" }\nown = [\"gateway_status\"]\n";
    let roles = Roles::start_with("", role, &[("guest", "tasks")]).await;
    let ask = async |method: &str, members: &str| {
        let dialect = Dialect::Legacy("2025-11-25");
        roles.request("guest", dialect, method, "", members).await
    };
    let call = async |arguments: &str| {
        let members =
            format!(r#""name":"b__greet","arguments":{arguments},"task":{{"ttl":60000}}"#);
        ask("tools/call", &members).await
    };
    let waiting = async || {
        let (folder, store) = (&roles.0.folder, roles.0.folder.path("events.db"));
        folder.command(&store, &["approvals", "list"]).await.1
    };
    for arguments in [
        r#"{"name":"db"}"#,
        "{}",
        r#"{"name":"web-1","name":"db"}"#,
        r#"{"name":"web-1","NAME":"db"}"#,
    ] {
        let created = call(arguments).await.json();
        let id = &created["result"]["task"]["taskId"];
        let refused = match id {
            Value::Null => created.to_string(),
            id => ask("tasks/result", &format!(r#""taskId":{id}"#)).await.body,
        };
        assert_contains(&refused, REFUSED);
        assert_lacks(&waiting().await, "b__greet");
    }
    let created = call(r#"{"name":"web-1"}"#).await.json();
    let id = &created["result"]["task"]["taskId"];
    assert!(id.is_string(), "{created}");
    eventually("a call that waits", async || {
        waiting().await.contains("b__greet").then_some(())
    })
    .await;
}

/// `call_tool` is judged by what it calls.
#[tokio::test]
async fn call_tool_is_judged_by_the_tool_that_it_calls() {
    let roles = start("search_above = 5").await;
    let call = async |principal, arguments: Value| {
        let arguments = json!({"name": "b.greet", "arguments": arguments});
        roles.call(principal, "call_tool", arguments).await
    };
    assert_contains(
        &call("guest", json!({"name": "web-1"})).await,
        "Hello, web-1!",
    );
    assert_contains(&call("guest", json!({"name": "db"})).await, REFUSED);
    for expected in ["Hello, a!", "Hello, a!", "Try again in"] {
        assert_contains(&call("reader", json!({"name": "a"})).await, expected);
    }
}

/// The rounds of a call (2026-07-28) are one call for the limit. A state that is sent again, or is not the gateway's,
/// continues none.
#[tokio::test]
async fn answer_of_the_user_belongs_to_its_call() {
    let role = "[roles.asked]\nallow = [\"b__greet\"]\nconfirm = [\"b__greet\"]\nlimit = \"3/h\"\n";
    let roles = Roles::start_with("", role, &[("guest", "asked")]).await;
    let bearer = bearer("guest");
    let headers = [
        ("authorization", bearer.as_str()),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "b__greet"),
    ];
    let call = async |more: Value| {
        let mut params = json!({
            "name": "b__greet",
            "arguments": {"name": "Ada"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            },
        });
        let members = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(members);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        roles.0.post_with(&headers, body.to_string()).await
    };
    let asked = call(json!({})).await.json()["result"].clone();
    let asked_for = asked["inputRequests"].as_object().unwrap();
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let answers = json!({asked_for.keys().next().unwrap(): yes});
    let answer = json!({"inputResponses": answers, "requestState": asked["requestState"]});
    assert_contains(&call(answer.clone()).await.body, "Hello, Ada!");
    // These count.
    let without_state = json!({"inputResponses": answers});
    for more in [&answer, &without_state] {
        assert_lacks(&call(more.clone()).await.body, "Try again in");
    }
    for more in [&answer, &without_state, &json!({})] {
        assert_contains(&call(more.clone()).await.body, "Try again in");
    }
}

/// The calls of a role are counted for each caller, however they come. A refusal says when to try again, and the event
/// names the line.
#[tokio::test]
async fn calls_beyond_the_limit_are_refused_until_a_time() {
    let roles = start("").await;
    let greet = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "b__greet", "arguments": {"name": "Ada"}}});
    let batch = json!([greet, greet, greet, greet]).to_string();
    let bearer = bearer("reader");
    let reply = roles
        .0
        .post_with(&[("authorization", &bearer)], batch)
        .await;
    assert_eq!(reply.body.matches("Hello, Ada!").count(), 2, "{reply:?}");
    assert_eq!(
        reply
            .body
            .matches("too many calls. Try again in 1800 s.")
            .count(),
        2,
        "{reply:?}"
    );
    for dialect in Dialect::ALL {
        let members = r#""name":"b__echo","arguments":{"message":"x"}"#;
        let reply = roles
            .request("reader", dialect, "tools/call", "b__echo", members)
            .await;
        assert_contains(&reply.body, "b__echo was not called: too many calls.");
        assert_eq!(reply.json()["result"]["isError"], true, "{reply:?}");
    }
    let status = roles.call("reader", "gateway_status", json!({})).await;
    assert_contains(&status, "too many calls");
    let other = roles
        .call("guest", "b__greet", json!({"name": "web-1"}))
        .await;
    assert_contains(&other, "Hello");
    let denied = eventually("the event of a refused call", async || {
        let found = roles
            .call("admin", "get_events", json!({"limit": 1000}))
            .await;
        let found: Value = serde_json::from_str(&found).unwrap();
        let found: Vec<Value> = serde_json::from_str(text(&found["result"])).unwrap();
        let mut found = found.into_iter().map(|event| event["metadata"].clone());
        found.find(|event| event["outcome"] == "denied" && event["item"] == "b__echo")
    })
    .await;
    assert_has!(denied, {"principal": "reader"});
    assert_contains(&denied["denial"], "role limited: denied by line ");
    assert_contains(&denied["denial"], "roles.limited.limit: 2/h");
}

#[tokio::test]
async fn explain_tells_the_patterns_that_decide() {
    let roles = start("").await;
    let file = roles.0.folder.path("gateway.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let line = |text: &str| 1 + config.lines().position(|line| line.contains(text)).unwrap();
    let arguments = line("arguments = { name =");
    let allow = format!(
        "role judged: allowed by line {}: roles.judged.allow: \"b__greet\"",
        arguments - 1
    );
    let patterns = format!("line {arguments}: roles.judged.arguments");
    let denied = |why: &str| format!("role judged: denied by {patterns}: {why}");
    for (principal, args, code, expected) in [
        (
            "guest",
            None,
            0,
            format!("{allow}, if its arguments match {patterns}"),
        ),
        (
            "guest",
            Some(r#"{"name":"web-1"}"#),
            0,
            format!("{allow}; its arguments match {patterns}"),
        ),
        (
            "guest",
            Some(r#"{"name":"db"}"#),
            1,
            denied("\"name\" does not match"),
        ),
        ("guest", Some("{}"), 1, denied("the call has no \"name\"")),
        (
            "reader",
            Some("{}"),
            0,
            format!(
                "role limited: allowed by line {}: roles.limited.allow: \"b__greet\"; limited by line {}: roles.limited.limit: 2/h",
                line("allow = [\"b__greet\", \"b__echo\"]"),
                line("limit = ")
            ),
        ),
    ] {
        let mut command = tokio::process::Command::new(binary("mcp-gateway"));
        command.args([
            "explain",
            "--config",
            file.as_str(),
            "--as",
            principal,
            "b:greet",
        ]);
        if let Some(args) = args {
            command.args(["--args", args]);
        }
        let run = command.output().await.unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stdout).trim_end(), expected);
        assert_eq!(run.status.code(), Some(code), "{run:?}");
    }
}
