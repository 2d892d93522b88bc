//! Requests that would cost far more memory than their bytes without limits.

use serde_json::Value;

use super::{fixture, refused, still_works};
use crate::harness::{Dialect, assert_contains};

/// The size of the largest body.
const MAX_BODY: usize = 4 << 20;
/// The memory that it may cost: its bytes, and room for the chunks from the socket.
const MAX_GROWTH_KIB: u64 = 3 * (MAX_BODY as u64 >> 10);

#[tokio::test]
async fn large_batch_is_refused_without_reading_its_messages() {
    let ping = r#"{"id":1,"method":"ping","jsonrpc":"2.0"}"#;
    for item in ["{}", "1", "[]", r#""a""#, ping] {
        let server = fixture().await;
        server.post_as(Dialect::Unversioned, "[]").await;
        let before = server.peak_memory_kib();
        let items = vec![item; (MAX_BODY - 2) / (item.len() + 1)].join(",");
        let reply = server.post(format!("[{items}]")).await;
        let error = refused(&reply, 200, -32600, Value::Null);
        assert_contains(error["message"].as_str().unwrap(), "at most 50");
        let grown = server.peak_memory_kib() - before;
        assert!(grown <= MAX_GROWTH_KIB, "{item}: {grown} KiB more");
        still_works(&server).await;
    }
}
