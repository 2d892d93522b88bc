//! Requests that cost far more than their bytes, if nothing bounds them.

use serde_json::Value;

use super::{fixture, refused, serves_on};
use crate::harness::Dialect;

/// The largest body, and what it may cost: its bytes as they are read, with room for the pieces that
/// come from the socket.
const BODY: usize = 4 << 20;
const MAX_GROWTH_KIB: u64 = 3 * (BODY as u64 >> 10);

#[tokio::test]
async fn large_batch_is_refused_without_reading_its_messages() {
    for item in [
        "{}",
        "1",
        "[]",
        r#""a""#,
        r#"{"id":1,"method":"ping","jsonrpc":"2.0"}"#,
    ] {
        let server = fixture().await;
        server.post_as(Dialect::Unversioned, "[]").await;
        let before = server.peak_memory_kib();
        let items = vec![item; (BODY - 2) / (item.len() + 1)].join(",");
        let reply = server.post(format!("[{items}]")).await;
        let error = refused(&reply, 200, -32600, Value::Null);
        assert!(
            error["message"].as_str().unwrap().contains("at most 50"),
            "{error}"
        );
        let grown = server.peak_memory_kib() - before;
        assert!(grown <= MAX_GROWTH_KIB, "{item}: {grown} KiB more");
        serves_on(&server).await;
    }
}
