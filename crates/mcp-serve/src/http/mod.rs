//! HTTP: a listener that slow, broken and hostile clients cannot hurt.
//!
//! [`Listener`] accepts connections and ends them, [`Workers`] are what those of a relay live on,
//! `stall` and hyper's timers give slow ones up, [`Guard`] decides who may come in before anything is
//! read, `endpoint` knows the paths, `body` reads requests, `reply` and `stream` write answers,
//! `lasting` those without an end in sight.

mod body;
mod endpoint;
mod guard;
mod headers;
mod lasting;
mod listener;
mod metrics;
mod out;
mod rate;
mod reply;
mod resume;
mod session;
mod stall;
mod stream;
mod transcript;
mod workers;

use std::time::Duration;

pub use guard::Guard;
pub use listener::Listener;
pub use workers::Workers;

/// What one listener allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request body.
    pub body: usize,
    /// Connections at the same time; more wait in the kernel's queue.
    pub connections: usize,
    /// Requests that are worked on at the same time; more are answered with 503.
    pub in_flight: usize,
    /// Requests per second of one client; more are answered with 429. `None`: as many as it likes.
    pub rate: Option<u32>,
    /// Until the head of a request is complete, also on an idle connection.
    pub head: Duration,
    /// Between two pieces of a request body.
    pub body_idle: Duration,
    /// Until a request body is complete.
    pub body_whole: Duration,
    /// Until a client that does not read has taken another byte.
    pub write_stall: Duration,
    /// Between two comments on a stream that is otherwise silent.
    pub keep_alive: Duration,
    /// How long requests in flight may take after the stop signal.
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
            body_whole: Duration::from_secs(60),
            write_stall: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(10),
        }
    }
}
