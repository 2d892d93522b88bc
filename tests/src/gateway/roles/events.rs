//! `mcp-gateway events`: reads the log of a gateway that runs, from another process.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::start;
use crate::gateway::env::{Gateway, bearer};
use crate::harness::{
    Dialect, assert_contains, assert_lacks, binary, eventually, rpc, rpc_call, wait_until,
};

/// Runs the command with the log of the gateway.
fn command(roles: &Gateway, args: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(binary("mcp-gateway"));
    let store = roles.folder.path("events.db");
    command.args(["events", "--events", &store]).args(args);
    command.kill_on_drop(true);
    command
}

async fn printed(roles: &Gateway, args: &[&str]) -> Vec<String> {
    let run = command(roles, args).output().await.unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The caller, its address and program, the rule and the outcome.
#[tokio::test]
async fn log_of_a_running_gateway_is_printed_followed_and_exported() {
    let roles = start("").await;
    // There is a file once the gateway has read it.
    roles.facts_by("admin").await;
    let mut following = command(&roles, &["--follow", "--json", "--principal", "oncall"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();

    let name = json!({"name": "hidden-value"});
    roles.told("reader", "b__greet", name).await;
    roles
        .told("oncall", "b__test_error_handling", json!({}))
        .await;
    // A session names its client once, in its handshake.
    let client = json!({"name": "some-agent\u{1b}", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let opened = roles.post_by("oncall", rpc("initialize", params)).await;
    let headers = [
        ("authorization", &*bearer("oncall")),
        (
            "mcp-session-id",
            opened.headers["mcp-session-id"].to_str().unwrap(),
        ),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    let call = rpc_call("b__greet", json!({"name": "Ada"})).to_string();
    assert_contains(&roles.post_with(&headers, call).await.body, "Hello");

    let mut next = async || -> Value {
        let line = lines.next_line().await.unwrap();
        serde_json::from_str(&line.unwrap()).unwrap()
    };
    let denied = &next().await["metadata"];
    assert_has!(denied, {"outcome": "denied", "principal": "oncall", "address": "127.0.0.1"});
    assert_contains(&denied["denial"], "roles.oncall.deny");
    let mut named = Value::Null;
    while named["metadata"]["tool_name"] != "b__greet" {
        named = next().await;
    }
    let greeted = &named["metadata"];
    assert_has!(greeted, {"client": "some-agent", "outcome": "ok"});
    assert_contains(&greeted["allowed_by"], "role oncall: allowed by line ");
    following.kill().await.unwrap();

    let all = eventually("the export", async || {
        let all = printed(&roles, &["--all", "--json"]).await;
        (all.len() >= 4).then_some(all)
    })
    .await;
    let mut times: Vec<String> = Vec::new();
    for line in &all {
        let event: Value = serde_json::from_str(line).unwrap();
        // Those of the gateway itself happen beside the requests, which come one after the other.
        if event["metadata"]["principal"].is_string() {
            times.push(event["timestamp"].as_str().unwrap().to_owned());
        }
        assert_lacks(line, "hidden-value");
    }
    assert!(times.len() >= 4, "{all:?}");
    assert!(times.is_sorted(), "{times:?}");
    let one = printed(&roles, &["-n", "1", "--outcome", "denied", "--since", "1h"]).await;
    assert_eq!(one.len(), 1);
    let parts = "gateway.request oncall b__test_error_handling denied 127.0.0.1 roles.oncall.deny";
    for part in parts.split(' ') {
        assert_contains(&one[0], part);
    }
    for (filter, value, count) in [
        ("--from", "nobody", 0),
        ("--view", "none", 0),
        ("--since", "2100-01-01T00:00:00Z", 0),
        ("--trace", named["trace_id"].as_str().unwrap(), 1),
    ] {
        let found = printed(&roles, &[filter, value]).await;
        assert_eq!(found.len(), count, "{filter}: {found:?}");
    }
    // Nothing is recorded by which it could be found.
    let about = command(&roles, &["--about", "hidden-value"]).output().await;
    let about = about.unwrap();
    assert!(
        about.status.success() && about.stdout.is_empty(),
        "{about:?}"
    );
    let hint = String::from_utf8(about.stderr).unwrap();
    assert_contains(&hint, "`record` in the table [events]");
    let wrong = command(&roles, &["--type", "nope"]).output().await.unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let query = json!({"event_type": "nope"});
    let told = roles.told("admin", "get_events", query).await;
    assert_contains(&told, "gateway.tool_call");
    // A client of 2026-07-28 names itself in each request; this one does not.
    let members = r#""name":"b__greet","arguments":{"name":"Ada"}"#;
    let call = roles.ask("admin", Dialect::Modern, "tools/call", "b__greet", members);
    call.await;
    let filter = ["--json", "--principal", "admin", "--item", "b__greet"];
    let modern = eventually("the event", async || printed(&roles, &filter).await.pop()).await;
    assert_lacks(&modern, "\"client\"");
}

#[tokio::test]
async fn log_that_cannot_be_read_is_named() {
    for (store, code, expected) in [
        ("memory", 78, "are in memory"),
        (
            "/nonexistent/events.db",
            1,
            "no gateway has stored anything at /nonexistent/events.db",
        ),
    ] {
        let run = tokio::process::Command::new(binary("mcp-gateway"))
            .args(["events", "--events", store])
            .output();
        let run = run.await.unwrap();
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert_contains(&String::from_utf8_lossy(&run.stderr).into_owned(), expected);
    }
}

/// Events name the caller, the container and the action, also of denied calls.
#[tokio::test]
async fn named_arguments_of_allowed_and_denied_calls_are_recorded() {
    let roles = start("[events]\nrecord = [\"b__gr*.name\"]").await;
    for (principal, tool, name) in [
        ("reader", "b__greet", "gwrev\u{202e}-old"),
        ("guest", "b__greet", "gwrev-db"),
        ("guest", "b__greet", "gwrev-web"),
        ("oncall", "b__test_error_handling", "not-recorded"),
    ] {
        roles.told(principal, tool, json!({"name": name})).await;
    }
    let events = eventually("the events", async || {
        let events = roles.facts_by("admin").await;
        let has_last = events
            .iter()
            .any(|facts| facts["item"] == "b__test_error_handling");
        has_last.then_some(events)
    })
    .await;
    assert_lacks(&json!(events), "not-recorded");
    for (name, principal, outcome) in [
        ("gwrev\\u{202e}-old", "reader", "ok"),
        ("gwrev-db", "guest", "denied"),
        ("gwrev-web", "guest", "denied"),
    ] {
        let mut facts = events.iter();
        let facts = facts.find(|facts| facts["arguments"]["name"]["value"] == name);
        let facts = facts.unwrap_or_else(|| panic!("{name} {events:?}"));
        let item = [&facts["tool_name"], &facts["item"]];
        assert!(item.contains(&&json!("b__greet")), "{name} {events:?}");
        assert_has!(facts, {"principal": principal, "outcome": outcome});
    }
    let lines = printed(&roles, &[]).await.join("\n");
    assert_contains(&lines, "guest  b__greet  name=gwrev-db  denied");
    // Who did what to it, by which rule.
    let about = printed(&roles, &["--about", "gwrev-db"]).await;
    assert_eq!(about.len(), 1, "{about:?}");
    assert_contains(&about[0], "guest  b__greet  name=gwrev-db  denied");
    assert_contains(&about[0], "role none: denied: no rule allows it");
    let allowed = printed(&roles, &["--about=-old"]).await;
    assert_contains(&allowed[0], "role reader: allowed by line ");
    // Not as the beginning of another name.
    assert!(printed(&roles, &["--about", "gwrev-d"]).await.is_empty());
    let filters = json!({"about": "gwrev-", "outcome": "denied", "principal": "guest"});
    let found = roles.told("admin", "get_events", filters).await;
    assert_contains(&found, "gwrev-web");
    assert_lacks(&found, "-old");
}

/// Neither the denied nor the allowed requests of one principal push out the event of another one.
#[tokio::test]
async fn flood_of_one_principal_keeps_the_events_of_others() {
    let roles = start("[events]\nrows = 100").await;
    roles
        .told("oncall", "b__greet", json!({"name": "Ada"}))
        .await;
    for (principal, rounds) in [("guest", 40), ("reader", 10)] {
        for round in 0..rounds {
            let call = |n: usize| {
                let name = match principal {
                    "guest" => &*format!("b__unknown_{round}_{n}"),
                    _ => "b__greet",
                };
                rpc_call(name, json!({"name": "x"}))
            };
            let batch: Value = (0..50).map(call).collect();
            roles.post_by(principal, batch).await;
        }
    }
    // All are written then.
    roles.facts_by("admin").await;
    wait_until("the limit", async || {
        let lines = printed(&roles, &["--all"]).await;
        let calls = lines
            .iter()
            .filter(|line| line.contains("oncall  b__greet"));
        assert_eq!(calls.count(), 1);
        lines.len() <= 101
    })
    .await;
}
