//! A call whose tool or backend changes while it waits is not made: a person was shown another one.

use serde_json::json;

use super::Operated;
use crate::gateway::env::{Folder, Gateway, misbehaving, tools_json};
use crate::harness::{assert_contains, assert_lacks};

/// What happens while the call waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Held,
    Offered,
    Unlisted,
    Denied,
    Replaced,
    Removed,
}

/// Each change, the pins of the backend, and what its caller and the operator are told.
const CHANGES: [(Change, &str, &str); 6] = [
    (
        Change::Held,
        "hold",
        "it was held back: its definition has changed",
    ),
    (Change::Offered, "warn", "its definition has changed"),
    (
        Change::Unlisted,
        "warn",
        "its backend has stopped listing it",
    ),
    (
        Change::Denied,
        "warn",
        "its backend was removed or configured again",
    ),
    (
        Change::Replaced,
        "warn",
        "its backend was removed or configured again",
    ),
    (
        Change::Removed,
        "warn",
        "its backend was removed or configured again",
    ),
];

#[tokio::test]
async fn call_whose_tool_has_changed_is_not_made_and_the_operator_is_told() {
    for (change, pins, reason) in CHANGES {
        eprintln!("{change:?}");
        let folder = Folder::new();
        let store = folder.path("events.db");
        let tools = tools_json(&["work", "other"]);
        let file = folder.write("tools", &tools);
        let journal = folder.path("journal");
        let child = misbehaving(&["--tools", &file, "--journal", &journal]);
        let rules = format!("pins = \"{pins}\"\n[approvals]\napprove = [\"*__work\"]\n");
        let config = format!("{rules}[backends.b]\n{child}\n");
        let gateway = Gateway::start(folder, &config, &["--events", &store]).await;
        let operated = Operated(gateway);
        let gateway = &operated.0;
        gateway.until_lists("b__work", true).await;
        let call = gateway.refusal("b__work", json!({"pay": 1}));
        let change_and_approve = async {
            let id = operated.waiting().await;
            let other = misbehaving(&["--tools", &file]);
            match change {
                Change::Held | Change::Offered => {
                    let changed = tools.replacen("Works.", "Pays all of it.", 1);
                    gateway.folder.write("tools", &changed);
                }
                Change::Unlisted => _ = gateway.folder.write("tools", &tools_json(&["other"])),
                Change::Denied => {
                    gateway.configure(&format!("{config}deny = [\"work\"]\n"));
                }
                Change::Replaced => gateway.configure(&format!("{rules}[backends.b]\n{other}\n")),
                Change::Removed => gateway.configure(&format!("{rules}[backends.c]\n{other}\n")),
            }
            if matches!(change, Change::Held | Change::Offered | Change::Unlisted) {
                gateway.tool("b__other", json!({"change": true})).await;
            }
            // Without a decision, too.
            operated.until(&id, "changed").await;
            let (code, text) = operated.command(&["approve", &id]).await;
            assert_eq!(code, 1, "{text}");
            assert_contains(&text, "nothing done: the call is changed already");
            assert_contains(&text, reason);
            let (_, shown) = operated.command(&["show", &id]).await;
            assert_contains(&shown, reason);
        };
        let (told, ()) = tokio::join!(call, change_and_approve);
        for part in [reason, "Nothing was done"] {
            assert_contains(&told, part);
        }
        let sent = gateway.folder.lines("journal").join("\n");
        assert_lacks(&sent, "\"pay\"");
        let receipts = json!(gateway.facts_of("gateway.approval").await);
        assert_contains(&receipts, "\"changed\"");
        assert_lacks(&receipts, "\"used\"");
    }
}

/// A rule that is new since the call waits asks its people as well.
#[tokio::test]
async fn call_needs_the_people_of_the_rules_when_it_is_made() {
    let operated = Operated::start(Folder::new(), "10m").await;
    let call = operated.call("Ada");
    let id = operated.waiting().await;
    let before = operated.0.configuration();
    let rule = "[approvals]\nconfirm = [\"b__echo\"]";
    operated
        .0
        .configure(&before.replacen("[approvals]", rule, 1));
    operated.0.facts_of("gateway.config_changed").await;
    let (code, text) = operated.command(&["approve", &id]).await;
    assert_eq!(code, 0, "{text}");
    assert_contains(&text, "can fail yet");
    // This client cannot ask its user.
    assert_contains(&call.await.unwrap(), "needs a confirmation by the user");
    assert_eq!(operated.0.made().await, 0);
}

/// A backend that is stopped lists other tools when a call starts it: the call is judged by these.
#[tokio::test]
async fn call_that_starts_its_backend_is_judged_by_the_tools_of_now() {
    let folder = Folder::new();
    let tools = tools_json(&["work"]);
    let file = folder.write("tools", &tools);
    let journal = folder.path("journal");
    let child = misbehaving(&["--tools", &file, "--journal", &journal]);
    let config = format!("pins = \"hold\"\n[backends.b]\nidle_timeout = \"1s\"\n{child}\n");
    let gateway = Gateway::start(folder, &config, &[]).await;
    // It may have stopped before its tools are listed.
    gateway.until_lists("b__work", true).await;
    gateway.until("b", "stopped").await;
    let changed = tools.replacen("Works.", "Pays all of it.", 1);
    gateway.folder.write("tools", &changed);
    let refused = gateway.refusal("b__work", json!({"pay": 1})).await;
    assert_contains(&refused, "held back: its definition has changed");
    let sent = gateway.folder.lines("journal").join("\n");
    assert_lacks(&sent, "\"pay\"");
}
