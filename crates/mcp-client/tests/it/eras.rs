//! Era negotiation with servers of all eras.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_client::{ClientInfo, Era, EraChoice, Error, Options};
use mcp_core::revision::Revision;
use mcp_core::trace::{TraceContext, TraceFields};
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::server::*;
use crate::stdio::client as child;

fn client_info() -> ClientInfo {
    crate::client_info().with_capabilities(json!({"roots": {}}))
}

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}},"instructions":"be quick","ttlMs":0,"cacheScope":"public"}"#;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A server that supports `initialize` and answers `server/discover` with `reply`.
async fn legacy_server(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(with_session(reply)).await
}

#[tokio::test]
async fn modern_requests_carry_the_envelope() {
    let mut server = Server::start(|request| match request.rpc().as_str() {
        "server/discover" => {
            let reply = result(request, DISCOVERED);
            with_header(reply, "mcp-session-id", "to-be-ignored")
        }
        _ => result(request, "{}"),
    })
    .await;
    let client = server.client();
    let found = client.connect(&client_info()).await.unwrap();
    assert_eq!(found.era, Era::Modern);
    assert_eq!(found.server_info.get(), r#"{"name":"new"}"#);
    assert_eq!(found.capabilities.get(), r#"{"tools":{}}"#);
    assert_eq!(found.instructions.as_deref(), Some("be quick"));

    let options = Options::default()
        .trace(TraceContext::parse(TraceFields {
            parent: Some(PARENT),
            state: Some("a=1"),
            baggage: Some("user=ada"),
        }))
        .capabilities(to_raw_value(&json!({})).unwrap().into());
    let call = json!({"name": "日本", "arguments": {}});
    let called = client.request_with("tools/call", &call, options).await;
    called.unwrap();
    client.close().await;

    let discover = server.next().await;
    assert_eq!(discover.header("mcp-method"), Some("server/discover"));
    let meta = &discover.json()["params"]["_meta"];
    assert_eq!(
        *meta,
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        })
    );
    let call = server.next().await;
    for (name, value) in [
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("=?base64?5pel5pys?=")),
        ("mcp-session-id", None),
    ] {
        assert_eq!(call.header(name), value, "{name}");
    }
    let meta = &call.json()["params"]["_meta"];
    let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, json!({}));
    for (name, value) in [
        ("traceparent", PARENT),
        ("tracestate", "a=1"),
        ("baggage", "user=ada"),
    ] {
        assert_eq!(call.header(name), Some(value));
        assert_eq!(meta[name], value);
    }
    // There is no session to end.
    assert!(server.nothing_received());
}

#[tokio::test]
async fn client_can_be_held_at_a_revision() {
    let choosing = |chosen: &'static str| {
        let reply = move |request: &Received| match request.rpc().as_str() {
            "initialize" => result(request, &json!({"protocolVersion": chosen}).to_string()),
            _ => reply(202, "text/plain", ""),
        };
        Server::start(reply)
    };
    let era = EraChoice::Revision(Revision::V2025_03_26);
    for (chosen, is_held) in [("2025-03-26", true), ("2025-11-25", false)] {
        let mut server = choosing(chosen).await;
        let client = builder().era(era).http(server.endpoint()).unwrap();
        let connected = client.connect(&client_info()).await;
        let sent = server.next().await.json();
        assert_eq!(sent["method"], "initialize");
        assert_eq!(sent["params"]["protocolVersion"], "2025-03-26");
        match connected {
            Ok(server) => assert!(is_held && server.protocol_version == chosen),
            Err(error) => {
                let text = error.to_string();
                assert!(!is_held && text.contains("it chose 2025-11-25"), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn servers_without_discover_get_initialize() {
    let json = "application/json";
    let not_initialized = rpc_error("null", -32000, "Bad Request: Server not initialized");
    let not_acceptable = rpc_error("null", -32000, "Not Acceptable");
    let unknown = rpc_error("1", -32601, "Method not found");
    let other = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    for (status, kind, body) in [
        (404, "text/plain", "no such page".to_owned()),
        (405, "text/plain", String::new()),
        (406, json, not_acceptable),
        (400, json, not_initialized),
        (500, "text/html", "<p>oops".to_owned()),
        (200, json, unknown),
        (200, json, other.to_owned()),
    ] {
        let refusal = body.clone();
        let server = legacy_server(move |_| reply(status, kind, refusal.clone())).await;
        let found = server.client().connect(&client_info()).await;
        let era = found.map(|server| server.era);
        let expected = Era::Legacy(Revision::V2025_06_18);
        assert_eq!(era.ok(), Some(expected), "{status} {body}");
    }
}

#[tokio::test]
async fn other_refusals_of_discover_are_errors() {
    for status in [401, 403, 429, 502, 503] {
        let mut server = legacy_server(move |_| reply(status, "text/plain", "")).await;
        let error = server.client().connect(&client_info()).await.unwrap_err();
        assert_error!(error, Error::Http { status: s, .. } if s == status);
        assert_eq!(server.next().await.rpc(), "server/discover");
        assert!(server.nothing_received());
    }
}

#[tokio::test]
async fn version_that_the_server_names_is_tried() {
    let unsupported = |versions: &str| {
        let error = format!(
            r#"{{"code":-32022,"message":"Unsupported","data":{{"supported":{versions},"requested":"x"}}}}"#
        );
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        reply(400, "application/json", body)
    };
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => unsupported(r#"["2026-07-28"]"#),
        _ => result(request, DISCOVERED),
    })
    .await;
    let era = server.client().connect(&client_info()).await.unwrap().era;
    assert_eq!(era, Era::Modern);

    let server = legacy_server(move |_| unsupported(r#"["2025-11-25","2025-06-18"]"#)).await;
    let era = server.client().connect(&client_info()).await.unwrap().era;
    assert_eq!(era, Era::Legacy(Revision::V2025_06_18));

    let server = legacy_server(move |_| unsupported(r#"["2031-01-01"]"#)).await;
    let error = server.client().connect(&client_info()).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, -32022);
}

#[tokio::test]
async fn server_without_handshake_is_unversioned() {
    let mut server = Server::start(|request| match request.rpc().as_str() {
        "tools/list" => result(request, r#"{"tools":[]}"#),
        _ => {
            let id = request.json()["id"].to_string();
            json(rpc_error(&id, -32601, "Method not found"))
        }
    })
    .await;
    let client = server.client();
    let found = client.connect(&client_info()).await.unwrap();
    assert_eq!(found.era, Era::Unversioned);
    assert!(client.list_tools().await.unwrap().is_empty());
    for expected in ["server/discover", "initialize"] {
        assert_eq!(server.next().await.rpc(), expected);
    }
    let list = server.next().await;
    let expected = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}"#;
    assert_eq!(list.body, expected);
    assert_eq!(list.header("mcp-method"), None);

    let builder = builder().era(EraChoice::Unversioned);
    let client = builder.http(server.endpoint()).unwrap();
    let found = client.connect(&client_info()).await.unwrap();
    assert_eq!(found.era, Era::Unversioned);
    assert!(server.nothing_received());
}

const INITIALIZED: &str = r#"
    echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old"}}}'
    read -r initialized
    read -r request; printf '{"jsonrpc":"2.0","id":3,"result":%s}\n' "$request"
    read -r rest
"#;

#[tokio::test]
async fn child_that_ignores_discover_gets_initialize_after_two_seconds() {
    let began = Instant::now();
    let script = format!("read -r discover; read -r initialize; {INITIALIZED}");
    let command = crate::stdio::sh(&script);
    let client = builder().stdio(command).unwrap();
    let found = client.connect(&client_info()).await.unwrap();
    assert_eq!(found.era, Era::Legacy(Revision::V2024_11_05));
    assert!(began.elapsed() >= Duration::from_secs(2));
    // The `_meta` of the caller's own connection is not relayed.
    let params =
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, "a": 1});
    let seen = client.request("m", &params).await.unwrap();
    let expected = r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{"a":1}}"#;
    assert_eq!(seen.get(), expected);
}

#[tokio::test]
async fn child_that_starts_slowly_is_still_modern() {
    let client = child(&format!(
        r#"
        read -r discover; read -r initialize
        printf '{{"jsonrpc":"2.0","id":1,"result":%s}}\n' '{DISCOVERED}'
        read -r request; printf '{{"jsonrpc":"2.0","id":3,"result":%s}}\n' "$request"
        "#
    ));
    let found = client.connect(&client_info()).await.unwrap();
    assert_eq!(found.era, Era::Modern);
    let seen = client.request("m", &()).await.unwrap();
    assert!(seen.get().contains("2026-07-28"), "{seen}");
}

#[tokio::test]
async fn connect_to_a_silent_child_times_out() {
    let limit = Duration::from_millis(2500);
    let command = crate::stdio::sh("while read -r line; do :; done");
    let client = builder().connect_timeout(limit).stdio(command);
    let error = client.unwrap().connect(&client_info()).await.unwrap_err();
    assert_error!(error, Error::Timeout { after, .. } if after == limit);
}
