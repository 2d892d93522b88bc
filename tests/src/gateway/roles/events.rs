//! `mcp-gateway events`: reads the log of a gateway that runs, from another process.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{Roles, bearer};
use crate::harness::{Dialect, assert_contains, assert_lacks, binary, eventually};

/// Runs the command with the log of the gateway.
fn command(roles: &Roles, args: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(binary("mcp-gateway"));
    let store = roles.0.folder.path("events.db");
    command.args(["events", "--events", &store]).args(args);
    command.kill_on_drop(true);
    command
}

async fn printed(roles: &Roles, args: &[&str]) -> Vec<String> {
    let run = command(roles, args).output().await.unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The caller, its address and program, the rule and the outcome.
#[tokio::test]
async fn log_of_a_running_gateway_is_printed_followed_and_exported() {
    let roles = Roles::start("").await;
    let mut following = command(&roles, &["--follow", "--json", "--principal", "oncall"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();

    roles
        .call("reader", "b__greet", json!({"name": "hidden-value"}))
        .await;
    roles
        .call("oncall", "b__test_error_handling", json!({}))
        .await;
    // A session names its client once, in its handshake.
    let bearer = bearer("oncall");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "some-agent\u{1b}", "version": "1"}}});
    let token = ("authorization", bearer.as_str());
    let opened = roles.0.post_with(&[token], initialize.to_string()).await;
    let session = opened.headers["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "b__greet", "arguments": {"name": "Ada"}}});
    let headers = [
        token,
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    assert_contains(
        &roles.0.post_with(&headers, call.to_string()).await.body,
        "Hello",
    );

    let denied: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_has!(denied["metadata"], {"outcome": "denied", "principal": "oncall", "address": "127.0.0.1"});
    assert_contains(&denied["metadata"]["denial"], "roles.oncall.deny");
    let mut named = Value::Null;
    while named["metadata"]["tool_name"] != "b__greet" {
        named = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    }
    assert_has!(named["metadata"], {"client": "some-agent", "outcome": "ok"});
    assert_contains(
        &named["metadata"]["allowed_by"],
        "role oncall: allowed by line ",
    );
    following.kill().await.unwrap();

    let all = eventually("the export", async || {
        let all = printed(&roles, &["--all", "--json"]).await;
        (all.len() >= 4).then_some(all)
    })
    .await;
    let mut times: Vec<String> = Vec::new();
    for line in &all {
        let event: Value = serde_json::from_str(line).unwrap();
        times.push(event["timestamp"].as_str().unwrap().to_owned());
        assert_lacks(line, "hidden-value");
    }
    assert!(times.is_sorted(), "{times:?}");
    let one = printed(&roles, &["-n", "1", "--outcome", "denied", "--since", "1h"]).await;
    assert_eq!(one.len(), 1);
    for part in [
        "gateway.request",
        "oncall",
        "b__test_error_handling",
        "denied",
        "127.0.0.1",
        "roles.oncall.deny",
    ] {
        assert_contains(&one[0], part);
    }
    assert!(printed(&roles, &["--from", "nobody"]).await.is_empty());
    assert!(
        printed(&roles, &["--since", "2100-01-01T00:00:00Z"])
            .await
            .is_empty()
    );
    // A client of 2026-07-28 names itself in each request; this one does not.
    let members = r#""name":"b__greet","arguments":{"name":"Ada"}"#;
    roles
        .request("admin", Dialect::Modern, "tools/call", "b__greet", members)
        .await;
    let modern = eventually("the event", async || {
        printed(
            &roles,
            &["--json", "--principal", "admin", "--item", "b__greet"],
        )
        .await
        .pop()
    })
    .await;
    assert_lacks(&modern, "\"client\"");
}

#[tokio::test]
async fn log_that_cannot_be_read_is_named() {
    for (store, expected) in [
        ("memory", "keeps its events in memory"),
        (
            "/nonexistent/events.db",
            "there is no event log at /nonexistent/events.db",
        ),
    ] {
        let run = tokio::process::Command::new(binary("mcp-gateway"))
            .args(["events", "--events", store])
            .output();
        let run = run.await.unwrap();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert_contains(&String::from_utf8_lossy(&run.stderr).into_owned(), expected);
    }
}

/// Events name the caller, the container and the action, also of denied calls.
#[tokio::test]
async fn named_arguments_of_allowed_and_denied_calls_are_recorded() {
    let roles = Roles::start("[events]\nrecord = [\"b__gr*.name\"]").await;
    for (principal, name) in [
        ("reader", "gwrev\u{202e}-old"),
        ("guest", "gwrev-db"),
        ("guest", "gwrev-web"),
    ] {
        roles
            .call(principal, "b__greet", json!({"name": name}))
            .await;
    }
    roles
        .call(
            "oncall",
            "b__test_error_handling",
            json!({"name": "not-recorded"}),
        )
        .await;
    let events = roles.call("admin", "get_events", json!({})).await;
    let events: Value = serde_json::from_str(&events).unwrap();
    let events = events["result"]["content"][0]["text"].as_str().unwrap();
    assert_lacks(events, "not-recorded");
    let events: Value = serde_json::from_str(events).unwrap();
    let found = |name: &str| {
        let mut facts = events
            .as_array()
            .unwrap()
            .iter()
            .map(|event| &event["metadata"]);
        facts
            .find(|facts| facts["arguments"]["name"]["value"] == name)
            .cloned()
            .unwrap_or_default()
    };
    for (name, principal, outcome) in [
        ("gwrev\\u{202e}-old", "reader", "ok"),
        ("gwrev-db", "guest", "denied"),
        ("gwrev-web", "guest", "denied"),
    ] {
        let facts = found(name);
        let item = [&facts["tool_name"], &facts["item"]];
        assert!(item.contains(&&json!("b__greet")), "{name} {events}");
        assert_eq!(
            (&facts["principal"], &facts["outcome"]),
            (&json!(principal), &json!(outcome))
        );
    }
    let lines = printed(&roles, &[]).await;
    assert!(
        lines
            .iter()
            .any(|line| line.contains("guest  b__greet  name=gwrev-db  denied")),
        "{lines:?}"
    );
}

/// Neither the denied nor the allowed requests of one principal push out the event of another one.
#[tokio::test]
async fn flood_of_one_principal_keeps_the_events_of_others() {
    let roles = Roles::start("[events]\nrows = 100").await;
    roles
        .call("oncall", "b__greet", json!({"name": "Ada"}))
        .await;
    for (principal, rounds) in [("guest", 40), ("reader", 10)] {
        let authorization = bearer(principal);
        for round in 0..rounds {
            let call = |n: usize| {
                let name = match principal {
                    "guest" => format!("b__unknown_{round}_{n}"),
                    _ => "b__greet".to_owned(),
                };
                json!({"jsonrpc": "2.0", "id": n + 1, "method": "tools/call",
                    "params": {"name": name, "arguments": {"name": "x"}}})
            };
            let batch: Value = (0..50).map(call).collect();
            let headers = [("authorization", authorization.as_str())];
            roles.0.post_with(&headers, batch.to_string()).await;
        }
    }
    eventually("the limit", async || {
        let lines = printed(&roles, &["--all"]).await;
        let calls = lines
            .iter()
            .filter(|line| line.contains("oncall  b__greet"))
            .count();
        assert_eq!(calls, 1);
        (lines.len() <= 101).then_some(())
    })
    .await;
}
