//! A call that waits ends with its caller, and is never made later.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{Operated, answer};
use crate::gateway::env::Folder;
use crate::harness::{assert_contains, assert_lacks, binary, eventually, wait_until};

const ADA: &str = "ada-has-a-token-of-32-characters!!!";
const OLGA: &str = "olga-has-a-token-of-32-characters!!";

type Headers = Vec<(&'static str, String)>;

/// The headers and the parameters of a call in each era whose client cannot resume its stream.
fn eras(session: &str) -> Vec<(&'static str, Headers, Value)> {
    let accept = |accept: &str| ("accept", accept.to_owned());
    let both = || accept("application/json, text/event-stream");
    let version = |version: &str| ("mcp-protocol-version", version.to_owned());
    let session = || ("mcp-session-id", session.to_owned());
    let progress = json!({"_meta": {"progressToken": 1}});
    let modern = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    vec![
        ("plain", vec![], json!({})),
        ("plain, events", vec![both()], progress.clone()),
        (
            "version only",
            vec![version("2025-11-25"), both()],
            progress.clone(),
        ),
        (
            "session, JSON",
            vec![version("2025-06-18"), session(), accept("application/json")],
            json!({}),
        ),
        (
            "session, no message",
            vec![version("2025-06-18"), session(), both()],
            json!({}),
        ),
        (
            "2026-07-28",
            vec![
                version("2026-07-28"),
                both(),
                ("mcp-method", "tools/call".to_owned()),
                ("mcp-name", "b__echo".to_owned()),
            ],
            modern,
        ),
    ]
}

fn request(
    url: &str,
    headers: &[(&'static str, String)],
    message: &Value,
) -> reqwest::RequestBuilder {
    let request = crate::harness::http_client().post(url);
    let request = request.header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, value)
    });
    request.body(message.to_string())
}

fn echo(mut params: Value) -> Value {
    params["name"] = json!("b__echo");
    params["arguments"] = json!({"value": "Ada"});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
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
    let url = gateway.0.server.url.clone();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}});
    let reply = request(
        &url,
        &[("accept", "application/json, text/event-stream".to_owned())],
        &hello,
    );
    let reply = reply.send().await.unwrap();
    let session = reply.headers()["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    for (era, headers, params) in eras(&session) {
        let call = request(&url, &headers, &echo(params));
        let call = tokio::spawn(async move {
            let reply = call.send().await.unwrap();
            reply.text().await
        });
        let id = gateway.waiting().await;
        call.abort();
        gateway.until(&id, "cancelled").await;
        let (code, text) = gateway.command(&["approve", &id]).await;
        assert_eq!(
            (code, text.trim()),
            (1, "nothing done: the call is cancelled already"),
            "{era}"
        );
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
    let mut child = tokio::process::Command::new(binary("mcp-gateway"))
        .args(["--stdio", "--config", &config, "--events", &store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(format!("{}\n", echo(json!({}))).as_bytes())
        .await
        .unwrap();
    let id = eventually("a call that waits", async || {
        let (_, list) = folder.command(&store, &["approvals", "list"]).await;
        list.split_whitespace().nth(1).map(str::to_owned)
    })
    .await;
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert_contains(
        &String::from_utf8(output.stdout).unwrap(),
        "Nothing was done",
    );
    let (code, text) = folder.command(&store, &["approvals", "approve", &id]).await;
    assert_eq!(code, 1, "{text}");
    // The end is stored: that of the call, or that of its gateway, which has ended, too.
    let is_over = ["cancelled", "gone"]
        .iter()
        .any(|end| text.contains(&format!("is {end} already")));
    assert!(is_over, "{text}");
}

/// Of ada, who waits, and olga, who decides.
async fn with_roles() -> Operated {
    let folder = Folder::new();
    let tokens = folder.write("tokens", &format!("olga {OLGA}\nada {ADA}\n"));
    let roles = "[roles.user]\nallow = [\"b__*\"]\n[roles.reader]\nallow = [\"b__greet\"]\n\
        [roles.strict]\nallow = [\"b__echo\"]\narguments = { value = \"other\" }\n\
        [roles.operator]\nallow = [\"b__*\"]\nown = [\"approve\"]\n\
        [principals]\nada = \"user\"\nolga = \"operator\"";
    Operated::with(folder, roles, &["--token-file", &tokens]).await
}

#[tokio::test]
async fn call_whose_caller_has_lost_its_role_or_its_token_is_never_made() {
    let gateway = with_roles().await;
    let url = gateway.0.server.url.clone();
    let path = gateway.0.folder.path("gateway.toml");
    let written = std::fs::read_to_string(&path).unwrap();
    let bearer = vec![("authorization", format!("Bearer {ADA}"))];
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    // Only the role `user` has both tools.
    let is_user = async || {
        let listed = request(&url, &bearer, &list).send().await.unwrap();
        let listed = listed.text().await.unwrap();
        listed.contains("b__echo") && listed.contains("b__greet")
    };
    for change in ["ada = \"reader\"", "ada = \"strict\"", "", "revoke"] {
        wait_until("the role of ada", async || is_user().await).await;
        let call = tokio::spawn(request(&url, &bearer, &echo(json!({}))).send());
        let id = gateway.waiting().await;
        match change {
            "revoke" => gateway.0.folder.write("tokens", &format!("olga {OLGA}\n")),
            _ => {
                let changed = written.replace("ada = \"user\"", change);
                gateway.0.folder.write("gateway.toml", &changed)
            }
        };
        // Without a decision, too.
        gateway.until(&id, "cancelled").await;
        let yes = json!({"answer": "approve"});
        let (status, text) = answer(&url, &format!("/approvals/{id}"), Some(OLGA), yes).await;
        assert_eq!(status, 409, "{change}: {text}");
        let _ = call.await.unwrap();
        wait_until("the changed role", async || !is_user().await).await;
        gateway.0.folder.write("gateway.toml", &written);
    }
    assert_never_made(&gateway).await;
}

#[tokio::test]
async fn call_ends_when_the_gateway_stops() {
    let gateway = Operated::start(Folder::new(), "10m").await;
    let call = gateway.call("Ada");
    let id = gateway.waiting().await;
    let Operated(crate::gateway::env::Gateway { mut server, folder }) = gateway;
    kill(Pid::from_raw(server.pid().cast_signed()), Signal::SIGTERM).unwrap();
    assert_contains(&call.await.unwrap(), "the gateway stops");
    server.wait_for_exit().await;
    let store = folder.path("events.db");
    let (code, text) = folder.command(&store, &["approvals", "approve", &id]).await;
    assert_eq!(
        (code, text.trim()),
        (1, "nothing done: the call is gone already")
    );
}
