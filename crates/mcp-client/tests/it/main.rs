//! The client against servers that do what real ones do, and worse.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod eras;
mod http;
mod http_faults;
mod http_idle;
mod recorder;
mod server;
mod sessions;
mod stdio;
mod stdio_end;
mod stdio_faults;
mod tls;
