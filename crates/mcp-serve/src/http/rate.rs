//! The rate limit: requests per second of each client.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_limit() {
        let limit = RateLimit::new(NonZeroU32::MIN);
        for client in ["a", "b"] {
            assert_eq!(limit.admit(client), Ok(()));
            let wait = limit.admit(client).unwrap_err();
            assert!(wait <= Duration::from_secs(1), "{wait:?}");
        }
    }

    #[test]
    fn number_of_limits_is_bounded() {
        let limit = RateLimit::new(NonZeroU32::MIN);
        for client in 0..MAX_CLIENTS + 1000 {
            let _ = limit.admit(&client.to_string());
        }
        assert!(limit.limiter.len() <= MAX_CLIENTS + SHARED as usize);
    }
}
