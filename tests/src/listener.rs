//! The listener against slow, broken and hostile clients.

mod concurrency;
mod cors;
mod limits;
mod shutdown;
mod smuggling;
mod sse;
mod tls;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use mcp_serve::{Guard, HttpService, Key, Limits, Listener, Registry, Tls, Tokens};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{Dialect, RawConnection, in_memory, post};

/// A listener in this process.
pub(crate) struct TestListener {
    pub(crate) url: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl TestListener {
    /// Starts a listener with the default limits, as `change` changes them, no reserved connections, and timeouts of
    /// clients that no test waits for: each test sets the one that it is about.
    pub(crate) async fn start(change: impl FnOnce(&mut Limits)) -> Self {
        Self::start_with(None, change).await
    }

    async fn start_with(tls: Option<Tls>, change: impl FnOnce(&mut Limits)) -> Self {
        Self::start_guarded(Tokens::default(), tls, change).await
    }

    /// Starts a listener that requires one of these tokens, if there are any.
    async fn start_guarded(
        tokens: Tokens,
        tls: Option<Tls>,
        change: impl FnOnce(&mut Limits),
    ) -> Self {
        let mut limits = Limits {
            reserved_connections: 0,
            head_timeout: LONG,
            body_timeout: LONG,
            write_timeout: LONG,
            ..Limits::default()
        };
        change(&mut limits);
        let args = ["mcp-conformance", "--call-timeout", "600"];
        let server = in_memory(args.into_iter());
        // As after the first probe.
        server.set_degraded(None);
        let guard = Guard::new(tokens, &[]);
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let signer = Key::random().unwrap().signer();
        let service = HttpService::new(server, guard, signer, limits, Registry::default());
        let mut listener = Listener::bind(address, service).await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        if let Some(tls) = tls {
            listener = listener.tls(Arc::new(tls));
        }
        let url = format!("{scheme}://{}/mcp", listener.address());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        Self {
            url,
            task: tokio::spawn(async move { listener.serve(stopped).await }),
            stop,
        }
    }

    /// Checks that a well-behaved client is served.
    async fn check_serves(&self) {
        let reply = RawConnection::round_trip(&self.url, ping(1)).await;
        assert_eq!(reply.status, 200);
    }
}

/// Longer than a test takes on a busy machine.
const LONG: Duration = Duration::from_secs(600);

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A request whose body has only begun.
const BODY_BEGUN: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";

fn ping(id: u32) -> String {
    let ping = Dialect::Unversioned.request(&id.to_string(), "ping", "");
    post(&[], &ping)
}

/// Returns a call that reports progress at once and then every `step` milliseconds, as a stream.
fn slow(step: u32, steps: u32) -> String {
    let members = format!(
        r#""name":"slow","arguments":{{"step":{step},"steps":{steps}}},"_meta":{{"progressToken":1}}"#
    );
    let body = Dialect::Unversioned.request("1", "tools/call", &members);
    post(&["Accept: application/json, text/event-stream"], &body)
}

/// Opens a subscription with these further header lines. Returns the status, too.
pub(crate) async fn subscribe(url: &str, fields: &[&str]) -> (RawConnection, u16) {
    let members = r#""notifications":{"toolsListChanged":true}"#;
    let body = Dialect::Modern.request("1", "subscriptions/listen", members);
    let own = [
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: subscriptions/listen",
    ];
    let request = post(&[&own, fields].concat(), &body);
    let mut wire = RawConnection::sending(url, request).await;
    let (status, _) = wire.head().await.unwrap();
    (wire, status)
}

/// Starts a slow call and waits until it runs.
async fn start_slow(url: &str, step: u32, steps: u32) -> RawConnection {
    let mut wire = RawConnection::sending(url, slow(step, steps)).await;
    let (status, headers) = wire.head().await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/event-stream");
    let event = String::from_utf8(wire.chunk().await.unwrap()).unwrap();
    assert!(event.contains("notifications/progress"), "{event}");
    wire
}
