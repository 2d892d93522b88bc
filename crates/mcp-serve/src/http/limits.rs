//! The limits of one listener.

use std::time::Duration;

/// What one listener allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request body.
    pub body: usize,
    /// Connections at the same time; more wait in the kernel's queue.
    pub connections: usize,
    /// Requests that are worked on at the same time; more are answered with 503.
    pub in_flight: usize,
    /// Requests per second of one client; more are answered with 429. `None`: no limit.
    pub rate: Option<u32>,
    /// Timeout for the head of a request, also on an idle connection.
    pub head: Duration,
    /// Timeout between two pieces of a request body.
    pub body_idle: Duration,
    /// Timeout for a whole request body.
    pub body_whole: Duration,
    /// Timeout for a write while the client does not read.
    pub write_stall: Duration,
    /// Interval of the comments on a stream that is otherwise silent.
    pub keep_alive: Duration,
    /// Grace period for requests in flight after the stop signal.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 4 * 1024 * 1024,
            connections: 1024,
            in_flight: 512,
            rate: None,
            head: Duration::from_secs(10),
            body_idle: Duration::from_secs(10),
            body_whole: Duration::from_secs(15),
            write_stall: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(10),
        }
    }
}
