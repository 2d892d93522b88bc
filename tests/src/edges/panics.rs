//! A panic of a tool fails only its own call, on every transport.

use serde_json::json;

use super::{fixture, refused, still_works};
use crate::harness::Dialect;
use crate::stdio::StdioServer;

const CALL: &str = r#""name":"protocol_error_job","arguments":{}"#;

#[tokio::test]
async fn panic_is_an_internal_error() {
    let mut peer = StdioServer::start(&[]);
    for dialect in Dialect::ALL {
        let answer = peer.ask(dialect, "1", "tools/call", CALL).await;
        assert_eq!(answer["error"]["code"], -32603, "{dialect:?} {answer}");
    }
    let server = fixture().await;
    for dialect in Dialect::ALL {
        let reply = server.call_as(dialect, "protocol_error_job", "{}").await;
        refused(&reply, 200, -32603, json!(1));
    }
    let batch = [
        Dialect::Unversioned.request("1", "tools/call", CALL),
        Dialect::Unversioned.request("2", "ping", ""),
    ];
    let replies = server.post(format!("[{}]", batch.join(","))).await.json();
    assert_eq!(replies[0]["error"]["code"], -32603);
    assert_eq!(replies[1]["result"], json!({}));
    server.wait_for_log("panicked").await;
    still_works(&server).await;
}
