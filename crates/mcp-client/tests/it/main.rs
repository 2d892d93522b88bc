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
mod http_faults;
mod http_idle;
mod oauth;
mod proxy;
mod recorder;
mod server;
mod sessions;
mod stdio;
mod stdio_end;
mod stdio_faults;
mod tls;

/// The client under test.
fn client_info() -> mcp_client::ClientInfo {
    mcp_client::ClientInfo::new("test", "1")
}
