//! Limits of the listener, of the requests and streams of each client, and of open files.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;

#[cfg(unix)]
use nix::sys::resource::{Resource, getrlimit, setrlimit};
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
    /// Timeout for a whole request body.
    pub body_timeout: Duration,
    /// Timeout for a write while the client does not read.
    pub write_timeout: Duration,
    /// Timeout for what a client still sends after our side is closed; not longer than that of a head.
    pub linger_timeout: Duration,
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
            body_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(5),
            keep_alive_interval: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// Clients that are counted each by itself; beyond this number they share [`SHARED`] limits.
const MAX_CLIENTS: usize = 10_000;
const SHARED: u64 = 256;

/// Interval at which clients that have all their requests again are forgotten, if there are too many.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The requests that each client has left: those of one second at most, which come back steadily.
pub(super) struct RateLimit {
    /// By the hash of the client's name.
    limiter: RateLimiter<u64, HashMapStateStore<u64>, DefaultClock>,
    hasher: RandomState,
    swept: Mutex<Instant>,
}

impl RateLimit {
    /// Admits `per_second` requests of each client per second.
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self {
            limiter: RateLimiter::hashmap(Quota::per_second(per_second)),
            hasher: RandomState::new(),
            swept: Mutex::new(Instant::now()),
        }
    }

    /// Counts one request of `client`.
    ///
    /// # Errors
    /// The time to wait, if the client has used all its requests.
    pub(super) fn admit(&self, client: &str) -> Result<(), Duration> {
        let mut key = self.hasher.hash_one(client);
        if self.limiter.len() >= MAX_CLIENTS {
            self.sweep();
            if self.limiter.len() >= MAX_CLIENTS {
                key %= SHARED;
            }
        }
        let now = self.limiter.clock().now();
        self.limiter
            .check_key(&key)
            .map_err(|admitted| admitted.wait_time_from(now))
    }

    fn sweep(&self) {
        let mut swept = self.swept.lock();
        if swept.elapsed() >= SWEEP_INTERVAL {
            *swept = Instant::now();
            self.limiter.retain_recent();
        }
    }
}

/// Counts the open streams of each client: each slot holds what the client's count refers to.
#[derive(Default)]
pub(super) struct StreamSlots(Mutex<HashMap<String, Weak<()>>>);

/// The slot of one stream, released when dropped.
pub(super) struct StreamSlot {
    _held: Arc<()>,
}

impl StreamSlots {
    /// The number of open streams.
    pub(super) fn len(&self) -> usize {
        self.0.lock().values().map(Weak::strong_count).sum()
    }

    /// Takes a slot for a stream of `client`; `None` if the client has so many already.
    pub(super) fn acquire(&self, client: String, most: usize) -> Option<StreamSlot> {
        let mut open = self.0.lock();
        open.retain(|_, slots| slots.strong_count() > 0);
        let slots = open.entry(client).or_default();
        if slots.strong_count() >= most {
            return None;
        }
        let slot = slots.upgrade().unwrap_or_default();
        *slots = Arc::downgrade(&slot);
        Some(StreamSlot { _held: slot })
    }
}

/// Open files besides connections: ports, logs, children, databases and connections to the service.
#[cfg(unix)]
const OTHERS: u64 = 512;

/// Raises this process's limit of open files as far as it may, so that it can hold this many connections:
/// the usual soft limit is 1,024. Logs a warning if they are too few.
#[cfg(unix)]
pub(super) fn allow(connections: usize) {
    // A call may need a connection to the service, too.
    let needed = 2 * connections as u64 + OTHERS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft >= needed {
        return;
    }
    let wanted = needed.min(hard);
    let files = match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(_) => soft,
    };
    if files < needed {
        tracing::warn!(
            files,
            connections,
            "this process may open too few files for its connections; later ones wait: raise `ulimit -n`"
        );
    }
}

/// Does nothing: Windows has no such limit.
#[cfg(not(unix))]
pub(super) fn allow(_: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_limits_is_bounded() {
        let limit = RateLimit::new(NonZeroU32::MIN);
        for client in 0..MAX_CLIENTS + 1000 {
            let _ = limit.admit(&client.to_string());
        }
        assert!(limit.limiter.len() <= MAX_CLIENTS + SHARED as usize);
    }
}
