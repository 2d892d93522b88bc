//! What slow, broken and hostile clients can do to a listener: nothing.

mod crowd;
mod end;
mod limits;
mod smuggling;

use std::net::Ipv4Addr;

use mcp_serve::{Guard, HttpService, Key, Limits, Listener, Registry, Tokens};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{Dialect, RawConnection, in_memory, post};

/// A listener in this process, with the limits of a test.
pub(crate) struct Listening {
    pub(crate) url: String,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Listening {
    pub(crate) async fn start(limits: Limits) -> Self {
        let server = in_memory(std::iter::once("mcp-conformance"));
        let guard = Guard::new(Tokens::default(), &[]);
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let signer = Key::random().unwrap().signer();
        let service = HttpService::new(server, guard, signer, limits, Registry::default());
        let listener = Listener::bind(address, service).await.unwrap();
        let url = format!("http://{}/mcp", listener.address());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        Self {
            url,
            ended: tokio::spawn(async move { listener.serve(None, stopped).await }),
            stop,
        }
    }

    /// A client that has nothing to hide is served.
    async fn serves(&self) {
        let reply = RawConnection::round_trip(&self.url, ping(1)).await;
        assert_eq!(reply.status, 200);
    }
}

fn ping(id: u32) -> String {
    post(
        &[],
        &Dialect::Unversioned.request(&id.to_string(), "ping", ""),
    )
}

/// A call that reports at once and then every `step` milliseconds, as a stream.
fn slow(step: u32, steps: u32) -> String {
    let members = format!(
        r#""name":"slow","arguments":{{"step":{step},"steps":{steps}}},"_meta":{{"progressToken":1}}"#
    );
    let body = Dialect::Unversioned.request("1", "tools/call", &members);
    post(&["Accept: application/json, text/event-stream"], &body)
}

/// Starts a call and waits until it runs.
async fn start_slow(url: &str, step: u32, steps: u32) -> RawConnection {
    let mut wire = RawConnection::connect(url).await;
    wire.send(slow(step, steps)).await;
    let (status, headers) = wire.head().await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/event-stream");
    let event = String::from_utf8(wire.chunk().await.unwrap()).unwrap();
    assert!(event.contains("notifications/progress"), "{event}");
    wire
}
