//! A call that waits ends with its caller, and is never made later.

use serde_json::{Value, json};

use super::{Operated, ROLES, answer};
use crate::gateway::env::{Folder, tokens, until_listed_over_stdio};
use crate::harness::{
    Dialect, assert_contains, assert_lacks, eventually, modern_meta, post_message, rpc_call,
    wait_until,
};
use crate::stdio::StdioServer;

const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

/// The headers and the `_meta` of a call in each era whose client cannot resume its stream.
fn eras(session: &str) -> Vec<(Vec<(&'static str, &str)>, Value)> {
    let version = |version| ("mcp-protocol-version", version);
    let in_session = |accept| vec![version("2025-06-18"), ("mcp-session-id", session), accept];
    let progress = json!({"progressToken": 1});
    let mut modern = Dialect::Modern.headers_of("tools/call", "b__echo");
    modern.push(BOTH);
    vec![
        (vec![], json!({})),
        (vec![BOTH], progress.clone()),
        (vec![version("2025-11-25"), BOTH], progress),
        (in_session(("accept", "application/json")), json!({})),
        // It gets no message.
        (in_session(BOTH), json!({})),
        (modern, modern_meta(json!({}))),
    ]
}

fn echo(meta: Value) -> Value {
    let mut call = rpc_call("b__echo", json!({"value": "Ada"}));
    call["params"]["_meta"] = meta;
    call
}

/// No event of a call that was made.
async fn assert_never_made(gateway: &Operated) {
    let (folder, store) = (&gateway.0.folder, gateway.0.folder.path("events.db"));
    let args = ["events", "--json", "--outcome", "ok", "--item", "b__echo"];
    assert_eq!(folder.command(&store, &args).await, (0, String::new()));
    let args = ["events", "--json", "--type", "gateway.approval"];
    let (_, receipts) = folder.command(&store, &args).await;
    assert_contains(&receipts, "\"waiting\"");
    assert_lacks(&receipts, "\"used\"");
}

#[tokio::test]
async fn call_that_its_client_leaves_is_never_made() {
    let gateway = Operated::start(Folder::new(), "10m").await;
    let session = gateway.0.session("2025-06-18", &[BOTH]).await;
    for (headers, meta) in eras(&session) {
        eprintln!("{headers:?}");
        let call = echo(meta);
        let id = tokio::select! {
            reply = post_message(&gateway.0.url, &headers, &call) => panic!("{reply:?}"),
            id = gateway.waiting() => id,
        };
        gateway.until(&id, "cancelled").await;
        gateway.assert_is_over(&id, "cancelled").await;
    }
    assert_never_made(&gateway).await;
}

/// Over stdio the client leaves when it closes the input of the gateway, whose output may still be read.
#[tokio::test]
async fn call_over_stdio_ends_when_the_input_is_closed() {
    let folder = Folder::new();
    let store = folder.path("events.db");
    let backend = crate::gateway::env::stdio_fixture();
    let config = format!("[approvals]\napprove = [\"b__echo\"]\n[backends.b]\n{backend}\n");
    let config = folder.write("gateway.toml", &config);
    let args = ["--stdio", "--config", &config, "--events", &store];
    let mut peer = StdioServer::of("mcp-gateway", &args, &[]);
    until_listed_over_stdio(&mut peer, "b__echo").await;
    peer.send(echo(json!({})).to_string()).await;
    let id = eventually("a call that waits", async || {
        let (code, list) = folder.command(&store, &["approvals", "list"]).await;
        let id = list.split_whitespace().nth(1)?.to_owned();
        (code == 0).then_some(id)
    })
    .await;
    drop(peer.stdin.take());
    let mut told = String::new();
    while let Some(line) = peer.line().await {
        told += &line;
    }
    peer.exit_code().await;
    // A gateway ends within a second of its input, which a busy disk may need to store the end of the call.
    assert!(
        told.contains("Nothing was done") || !told.contains("Ada"),
        "{told}"
    );
    let (code, text) = folder.command(&store, &["approvals", "approve", &id]).await;
    assert_eq!(code, 1, "{text}");
    // The stored end is that of the call, or that of its gateway, which has ended, too.
    let ends = [
        "is cancelled already",
        "is gone already",
        "its gateway does not answer",
    ];
    assert!(ends.iter().any(|end| text.contains(end)), "{text}");
}

const MORE_ROLES: &str = r#"
[roles.reader]
allow = ["b__greet"]
[roles.strict]
allow = ["b__echo"]
arguments = { value = "other" }
"#;

#[tokio::test]
async fn call_whose_caller_has_lost_its_role_or_its_token_is_never_made() {
    let operated = Operated::guarded(&format!("{MORE_ROLES}{ROLES}")).await;
    let gateway = &operated.0;
    let written = gateway.configuration();
    // Only the role `user` has both tools.
    let is_user = async || {
        let listed = gateway.ask("ada", Dialect::Unversioned, "tools/list", "", "");
        let listed = listed.await.body;
        listed.contains("b__echo") && listed.contains("b__greet")
    };
    for change in ["ada = \"reader\"", "ada = \"strict\"", "", "revoke"] {
        wait_until("the role of ada", async || is_user().await).await;
        let change_and_decide = async {
            let id = operated.waiting().await;
            match change {
                "revoke" => _ = gateway.folder.write("tokens", &tokens(&["olga"])),
                _ => gateway.configure(&written.replace("ada = \"user\"", change)),
            }
            // Without a decision, too.
            operated.until(&id, "revoked").await;
            let (path, yes) = (format!("/approvals/{id}"), json!({"answer": "approve"}));
            let (status, text) = answer(&gateway.url, &path, Some("olga"), yes).await;
            assert_eq!(status, 409, "{change}: {text}");
        };
        let call = gateway.post_by("ada", echo(json!({})));
        tokio::join!(call, change_and_decide);
        wait_until("the changed role", async || !is_user().await).await;
        gateway.configure(&written);
    }
    assert_never_made(&operated).await;
}
