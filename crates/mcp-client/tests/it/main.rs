//! Tests of the client against servers that behave like real ones, and worse.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

/// Asserts that an error matches a pattern.
macro_rules! assert_error {
    ($error:expr, $($pattern:tt)+) => {
        assert!(matches!($error, $($pattern)+), "{:?}", $error)
    };
}

mod eras;
mod http;
mod oauth;
mod proxy;
mod server;
mod stdio;
mod tls;

/// The client under test.
fn client_info() -> mcp_client::ClientInfo {
    mcp_client::ClientInfo::new("test", "1")
}
