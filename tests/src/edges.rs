//! The edges of the protocol, in every dialect: what is refused, how, and what is not.

mod codes;
mod elicitation;
mod envelope;
mod eras;
mod overload;
mod panics;
mod transport;
mod values;

use serde_json::{Value, json};

use crate::harness::{Dialect, Reply, Server};

const FIXTURE: &str = "mcp-conformance";

async fn fixture() -> Server {
    Server::start(FIXTURE, &[]).await
}

/// The reply must be this error, for this id, under this status.
#[track_caller]
fn refused(reply: &Reply, status: u16, code: i32, id: Value) -> Value {
    let body = reply.json();
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(body["error"]["code"], json!(code), "{reply:?}");
    assert_eq!(body["jsonrpc"], "2.0", "{reply:?}");
    assert_eq!(body.get("id"), Some(&id), "{reply:?}");
    assert_eq!(reply.headers["content-type"], "application/json");
    body["error"].clone()
}

/// Whatever was sent before, the server serves on.
async fn serves_on(server: &Server) {
    let reply = server
        .request_as(Dialect::Unversioned, "ping", "", "")
        .await;
    assert_eq!(reply.body, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}
