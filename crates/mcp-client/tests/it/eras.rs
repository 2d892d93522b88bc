//! Which era a server speaks, and what is said to find out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_client::{Client, ClientInfo, Era, EraChoice, Error, Options};
use mcp_core::revision::Revision;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::server::*;
use crate::stdio::client as child;

fn who() -> ClientInfo {
    ClientInfo::new("test", "1").with_capabilities(json!({"roots": {}}))
}

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}},"instructions":"be quick","ttlMs":0,"cacheScope":"public"}"#;

/// A server that knows the handshake and refuses `server/discover` in its own way.
async fn refusing(refusal: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(with_session(move |request| refusal(request))).await
}

#[tokio::test]
async fn the_modern_era_says_everything_with_every_request() {
    let mut server = Server::start(|request| match request.rpc().as_str() {
        "server/discover" => {
            let mut reply = result(request, DISCOVERED);
            let headers = reply.headers_mut();
            headers.insert("mcp-session-id", "to-be-ignored".parse().unwrap());
            reply
        }
        _ => result(request, "{}"),
    })
    .await;
    let client = server.client();
    let found = client.connect(&who()).await.unwrap();
    assert_eq!(found.era, Era::Modern);
    assert_eq!(found.server_info.get(), r#"{"name":"new"}"#);
    assert_eq!(found.capabilities.get(), r#"{"tools":{}}"#);
    assert_eq!(found.instructions.as_deref(), Some("be quick"));

    let options = Options::default()
        .traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .capabilities(to_raw_value(&json!({})).unwrap().into());
    let call = json!({"name": "日本", "arguments": {}});
    client
        .request_with("tools/call", &call, options)
        .await
        .unwrap();
    client.close().await;

    let discover = server.next().await;
    assert_eq!(discover.header("mcp-method"), Some("server/discover"));
    let meta = &discover.json()["params"]["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test");
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        json!({"roots": {}})
    );
    let call = server.next().await;
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("=?base64?5pel5pys?="));
    assert_eq!(call.header("mcp-session-id"), None);
    let meta = &call.json()["params"]["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        json!({})
    );
    assert_eq!(meta["traceparent"].as_str(), call.header("traceparent"));
    // There is no session to end.
    assert!(server.nothing_received());
}

#[tokio::test]
async fn whoever_does_not_know_the_question_is_asked_in_the_old_way() {
    let refusals: [fn(&Received) -> Reply; 7] = [
        |_| reply(404, "text/plain", "no such page"),
        |_| reply(405, "text/plain", ""),
        |_| {
            reply(
                406,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Not Acceptable"}}"#,
            )
        },
        |_| {
            reply(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#,
            )
        },
        |_| reply(500, "text/html", "<p>oops"),
        |_| {
            json(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#)
        },
        |request| result(request, "{}"),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        let server = refusing(refusal).await;
        let found = server.client().connect(&who()).await;
        let era = found.unwrap_or_else(|error| panic!("{n}: {error:?}")).era;
        assert_eq!(era, Era::Legacy(Revision::V2025_06_18), "{n}");
    }
}

#[tokio::test]
async fn what_is_not_about_the_era_is_an_error_at_once() {
    for status in [401, 403, 429, 502, 503] {
        let mut server = refusing(move |_| reply(status, "text/plain", "")).await;
        let error = server.client().connect(&who()).await.unwrap_err();
        assert!(
            matches!(error, Error::Http { status: s, .. } if s == status),
            "{error:?}"
        );
        assert_eq!(server.next().await.rpc(), "server/discover");
        assert!(server.nothing_received());
    }
}

#[tokio::test]
async fn a_version_that_the_server_names_is_tried() {
    let unsupported = |versions: &str| {
        let error = format!(
            r#"{{"code":-32022,"message":"Unsupported","data":{{"supported":{versions},"requested":"x"}}}}"#
        );
        reply(
            400,
            "application/json",
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#),
        )
    };
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => unsupported(r#"["2026-07-28"]"#),
        _ => result(request, DISCOVERED),
    })
    .await;
    assert_eq!(
        server.client().connect(&who()).await.unwrap().era,
        Era::Modern
    );

    let server = refusing(move |_| unsupported(r#"["2025-11-25","2025-06-18"]"#)).await;
    let era = server.client().connect(&who()).await.unwrap().era;
    assert_eq!(era, Era::Legacy(Revision::V2025_06_18));

    let server = refusing(move |_| unsupported(r#"["2031-01-01"]"#)).await;
    let error = server.client().connect(&who()).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, -32022);
}

#[tokio::test]
async fn a_server_without_any_handshake_is_plain() {
    let mut server = Server::start(|request| match request.rpc().as_str() {
        "tools/list" => result(request, r#"{"tools":[]}"#),
        _ => {
            let id = &request.json()["id"];
            json(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            ))
        }
    })
    .await;
    let client = server.client();
    assert_eq!(client.connect(&who()).await.unwrap().era, Era::Unversioned);
    assert!(client.list_tools().await.unwrap().is_empty());
    for expected in ["server/discover", "initialize"] {
        assert_eq!(server.next().await.rpc(), expected);
    }
    let list = server.next().await;
    assert_eq!(
        list.body,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}"#
    );
    assert_eq!(list.header("mcp-method"), None);

    let client = Client::builder()
        .era(EraChoice::Unversioned)
        .http(server.endpoint());
    assert_eq!(
        client.unwrap().connect(&who()).await.unwrap().era,
        Era::Unversioned
    );
    assert!(server.nothing_received());
}

const INITIALIZED: &str = r#"
    echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old"}}}'
    read -r initialized
    read -r request; printf '{"jsonrpc":"2.0","id":3,"result":%s}\n' "$request"
    read -r rest
"#;

#[tokio::test]
async fn a_deaf_child_is_asked_in_the_old_way_after_two_seconds() {
    let began = Instant::now();
    let client = child(&format!(
        "read -r discover; read -r initialize; {INITIALIZED}"
    ));
    let found = client.connect(&who()).await.unwrap();
    assert_eq!(found.era, Era::Legacy(Revision::V2024_11_05));
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    // What the caller's own connection said stays there.
    let params =
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, "a": 1});
    let seen = client.request("m", &params).await.unwrap();
    assert_eq!(
        seen.get(),
        r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{"a":1}}"#
    );
}

#[tokio::test]
async fn a_child_that_is_slow_to_start_is_still_modern() {
    let client = child(&format!(
        r#"
        read -r discover; read -r initialize
        printf '{{"jsonrpc":"2.0","id":1,"result":%s}}\n' '{DISCOVERED}'
        read -r request; printf '{{"jsonrpc":"2.0","id":3,"result":%s}}\n' "$request"
        "#
    ));
    assert_eq!(client.connect(&who()).await.unwrap().era, Era::Modern);
    let seen = client.request("m", &()).await.unwrap();
    assert!(seen.get().contains("2026-07-28"), "{seen}");
}

#[tokio::test]
async fn a_child_that_refuses_is_asked_in_the_old_way_at_once() {
    let client = child(&format!(
        r#"
        read -r discover
        echo '{{"jsonrpc":"2.0","id":1,"error":{{"code":-32602,"message":"Invalid request parameters"}}}}'
        read -r initialize
        {INITIALIZED}
        "#
    ));
    let began = Instant::now();
    client.connect(&who()).await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_child_that_never_answers_is_given_up() {
    let limit = Duration::from_millis(2500);
    let command = crate::stdio::sh("while read -r line; do :; done");
    let client = Client::builder().connect_timeout(limit).stdio(command);
    let error = client.unwrap().connect(&who()).await.unwrap_err();
    assert!(
        matches!(error, Error::Timeout { after, .. } if after == limit),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_child_that_ends_at_the_question_says_so() {
    let error = child("read -r discover; exit 1").connect(&who()).await;
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "sh is gone: exit status: 1");
}
