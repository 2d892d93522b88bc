//! Edge cases of the protocol in every dialect: invalid input and its errors, limits, exact bytes.

mod codes;
mod elicitation;
mod envelope;
mod subscriptions;
mod transport;
mod values;

use serde_json::{Value, json};

use crate::harness::{Dialect, Reply, Server};

const FIXTURE: &str = "mcp-conformance";

/// The fixture, whose calls may take ten minutes, so that no test waits for their end.
async fn fixture() -> Server {
    Server::with_args(FIXTURE, &["--call-timeout", "600"], &[]).await
}

/// Asserts that the reply is this error, with this id and HTTP status; returns the error.
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

/// Asserts that the server still answers.
async fn still_works(server: &Server) {
    let ping = Dialect::Unversioned.request("1", "ping", "");
    let reply = server.post(ping).await;
    assert_eq!(reply.body, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

/// Asserts that the reply is the empty one to notifications and responses.
#[track_caller]
fn accepted(reply: &Reply) {
    assert_eq!((reply.status, reply.body.as_str()), (202, ""), "{reply:?}");
}
