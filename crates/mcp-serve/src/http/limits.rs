//! Limits of the listener.

use std::time::Duration;

/// The limits of one listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request body.
    pub max_body_bytes: usize,
    /// Bytes of all request bodies above 64 KiB, from their first byte to the end of their requests; further ones are
    /// answered with 503.
    pub max_body_memory: usize,
    /// Connections at the same time.
    pub max_connections: usize,
    /// Connections beyond that, of one request each: health checks and metrics are answered, everything else
    /// gets 503. Further connections wait in the queue of the operating system.
    pub reserved_connections: usize,
    /// Requests in flight; further ones are answered with 503.
    pub max_in_flight: usize,
    /// Streams on which one client (of a token, else of an address) listens at the same time; further ones
    /// are answered with 429.
    pub max_streams_per_client: usize,
    /// Requests per second of one client; further ones are answered with 429. `None`: no limit.
    pub max_requests_per_second: Option<u32>,
    /// Timeout for the head of a request, also on an idle connection.
    pub head_timeout: Duration,
    /// Timeout between two parts of a request body.
    pub body_idle_timeout: Duration,
    /// Timeout for a whole request body.
    pub body_timeout: Duration,
    /// Timeout for a write while the client does not read.
    pub write_timeout: Duration,
    /// Interval of the comments on an idle stream.
    pub keep_alive_interval: Duration,
    /// Grace period for requests in flight after the stop signal.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            max_body_memory: 256 * 1024 * 1024,
            max_connections: 1024,
            reserved_connections: 64,
            max_in_flight: 512,
            max_streams_per_client: 20,
            max_requests_per_second: None,
            head_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(30),
            keep_alive_interval: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
