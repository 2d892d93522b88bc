//! Patterns for arguments, and limits, of roles: a call that a role allows is judged with its arguments, no matter which request brings it.

use serde_json::{Value, json};

use super::start_with;
use crate::gateway::env::Gateway;
use crate::gateway::input_requests::answer_all;
use crate::harness::{Dialect, assert_contains, assert_lacks, eventually, rpc_call};

/// Beside the roles of the other tests.
pub(in crate::gateway) const CONDITIONS: &str = r#"
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

async fn start(more: &str) -> Gateway {
    let replaced = [("guest", "judged"), ("reader", "limited")];
    start_with(more, CONDITIONS, &replaced).await
}

pub(super) const REFUSED: &str = "You may call b__greet, but not with these values of: name.";

/// The tool is listed. A call of it is judged in every dialect and spelling, and as its backend reads it.
#[tokio::test]
async fn call_is_judged_with_its_arguments_in_every_dialect_and_spelling() {
    let roles = start("").await;
    for dialect in Dialect::ALL {
        let names = roles.names("guest", dialect).await;
        assert!(names.contains(&"b__greet".to_owned()), "{names:?}");
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
                let reply = roles.ask("guest", dialect, "tools/call", name, &members);
                let reply = reply.await;
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
            let reply = roles.ask("guest", dialect, "tools/call", "b__echo", &members);
            let is_refused = reply.await.body.contains("You may call");
            assert_eq!(is_refused, !allowed, "{dialect:?} {message}");
        }
    }
    other_methods_batches_tasks_and_repeated_members_open_nothing(&roles).await;
}

async fn other_methods_batches_tasks_and_repeated_members_open_nothing(roles: &Gateway) {
    let dialect = Dialect::Unversioned;
    let call = |method: &str, members: &str| dialect.request("1", method, members);
    let good = r#""name":"b__greet","arguments":{"name":"web-1"}"#;
    let bad = r#""name":"b__greet","arguments":{"name":"db"}"#;
    let twice = format!(r#"{good},"arguments":{{"name":"db"}}"#);
    let two_names = r#""name":"b__echo","name":"b__greet","arguments":{"message":"x","name":"db"}"#;
    let batch = [call("tools/call", bad), call("mcp.callTool", bad)].join(",");
    let reply = roles.post_by("guest", call("mcp.callTool", good)).await;
    assert_contains(&reply.body, "Hello, web-1!");
    for body in [
        call("mcp.callTool", bad),
        format!("[{batch}]"),
        call("tools/call", &twice),
        call("tools/call", two_names),
    ] {
        let reply = roles.post_by("guest", body).await;
        assert_lacks(&reply.body, "Hello");
        assert_contains(&reply.body, "error");
    }
    let takes_tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for (name, expected) in [("web-1", "Hello, web-1!"), ("db", REFUSED)] {
        let call = json!({"name": "b__greet", "arguments": {"name": name}});
        let reply = roles.ask_modern("guest", takes_tasks.clone(), "tools/call", call);
        assert_contains(&reply.await, expected);
    }
}

/// A call of 2025-11-25 that is to run as a task is judged before an operator is asked.
#[tokio::test]
async fn legacy_task_is_judged_with_its_arguments() {
    let role = "[roles.tasks]\nallow = [\"b__greet\"]\napprove = [\"b__greet\"]\n\
        arguments = { name = \"web-*\" }\nown = [\"gateway_status\"]\n";
    let roles = start_with("", role, &[("guest", "tasks")]).await;
    let ask = async |method: &str, members: &str| {
        let dialect = Dialect::Legacy("2025-11-25");
        roles.ask("guest", dialect, method, "", members).await
    };
    let call = async |arguments: &str| {
        let members =
            format!(r#""name":"b__greet","arguments":{arguments},"task":{{"ttl":60000}}"#);
        ask("tools/call", &members).await
    };
    let waiting = async || {
        let (folder, store) = (&roles.folder, roles.folder.path("events.db"));
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

/// The rounds of a call (2026-07-28) are one call for the limit. A state that is sent again, or is not the gateway's,
/// continues none.
#[tokio::test]
async fn answer_of_the_user_belongs_to_its_call() {
    let role = "[roles.asked]\nallow = [\"b__greet\"]\nconfirm = [\"b__greet\"]\nlimit = \"3/h\"\n";
    let roles = start_with("", role, &[("guest", "asked")]).await;
    let call = async |more: &Value| {
        let mut params = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
        let members = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(members);
        let capabilities = json!({"elicitation": {}});
        let called = roles.ask_modern("guest", capabilities, "tools/call", params);
        called.await
    };
    let asked = call(&json!({})).await["result"].take();
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let mut answer = json!({});
    answer_all(&mut answer, &asked, |_| yes.clone());
    assert_contains(&call(&answer).await, "Hello, Ada!");
    // These count.
    let without_state = json!({"inputResponses": answer["inputResponses"]});
    for more in [&answer, &without_state] {
        assert_lacks(&call(more).await, "Try again in");
    }
    for more in [&answer, &without_state, &json!({})] {
        assert_contains(&call(more).await, "Try again in");
    }
}

/// The calls of a role are counted for each caller, however they come. A refusal says when to try again, and the event
/// names the line.
#[tokio::test]
async fn calls_beyond_the_limit_are_refused_until_a_time() {
    let roles = start("").await;
    let greet = rpc_call("b__greet", json!({"name": "Ada"}));
    let batch = json!([greet, greet, greet, greet]);
    let reply = roles.post_by("reader", batch).await.body;
    let refusal = "too many calls. Try again in ";
    let counts = ["Hello, Ada!", refusal].map(|part| reply.matches(part).count());
    assert_eq!(counts, [2, 2], "{reply}");
    // Half an hour after the first call.
    for rest in reply.split(refusal).skip(1) {
        let (seconds, _) = rest.split_once(" s.").unwrap();
        let seconds: u32 = seconds.parse().unwrap();
        assert!((1_700..=1_800).contains(&seconds), "{reply}");
    }
    for dialect in Dialect::ALL {
        let members = r#""name":"b__echo","arguments":{"message":"x"}"#;
        let reply = roles.ask("reader", dialect, "tools/call", "b__echo", members);
        let reply = reply.await;
        assert_contains(&reply.body, "b__echo was not called: too many calls.");
        assert_eq!(reply.json()["result"]["isError"], true, "{reply:?}");
    }
    let status = roles.told("reader", "gateway_status", json!({})).await;
    assert_contains(&status, "too many calls");
    let name = json!({"name": "web-1"});
    assert_contains(&roles.told("guest", "b__greet", name).await, "Hello");
    let denied = eventually("the event of a refused call", async || {
        let mut found = roles.facts_by("admin").await.into_iter();
        found.find(|event| event["outcome"] == "denied" && event["item"] == "b__echo")
    })
    .await;
    assert_has!(denied, {"principal": "reader"});
    assert_contains(&denied["denial"], "role limited: denied by line ");
    assert_contains(&denied["denial"], "roles.limited.limit: 2/h");
}
