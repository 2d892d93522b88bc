//! The rate limit: requests per second of each client.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Clients in memory; if there are more, clients with a full bucket are removed.
const MAX_CLIENTS: usize = 10_000;

/// A token bucket for each client. It holds the requests of one second and refills steadily.
pub(super) struct RateLimit {
    per_second: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    /// Admits `per_second` requests of each client per second.
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            buckets: Mutex::default(),
        }
    }

    /// Counts one request of `client` at `now`.
    ///
    /// # Errors
    /// The time to wait, if the client has used all its requests.
    pub(super) fn admit(&self, client: &str, now: Instant) -> Result<(), Duration> {
        let per_second = self.per_second;
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MAX_CLIENTS && !buckets.contains_key(client) {
            // A full bucket is the same as a new one.
            let full = Duration::from_secs(1);
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.filled) < full);
            if buckets.len() >= MAX_CLIENTS {
                return Err(full);
            }
        }
        let bucket = match buckets.get_mut(client) {
            Some(bucket) => bucket,
            None => {
                let full = Bucket {
                    tokens: per_second,
                    filled: now,
                };
                buckets.entry(client.to_owned()).or_insert(full)
            }
        };
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * per_second).min(per_second);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) / per_second));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_limit() {
        let limit = RateLimit::new(4);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let wait = |millis| Err(Duration::from_millis(millis));
        // Four at once, then one per 250 ms. A refused request costs nothing.
        for (client, millis, expected) in [
            ("a", 0, Ok(())),
            ("a", 0, Ok(())),
            ("a", 0, Ok(())),
            ("a", 0, Ok(())),
            ("a", 0, wait(250)),
            ("a", 125, wait(125)),
            ("b", 125, Ok(())),
            ("a", 250, Ok(())),
            ("a", 250, wait(250)),
            // Never more than four at once.
            ("a", 60_000, Ok(())),
            ("a", 60_000, Ok(())),
            ("a", 60_000, Ok(())),
            ("a", 60_000, Ok(())),
            ("a", 60_000, wait(250)),
        ] {
            assert_eq!(
                limit.admit(client, at(millis)),
                expected,
                "{client} {millis}"
            );
        }
    }

    #[test]
    fn table_is_bounded() {
        let limit = RateLimit::new(1);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        for client in 0..MAX_CLIENTS {
            assert!(limit.admit(&client.to_string(), start).is_ok());
        }
        // A known client keeps its own limit, an unknown one waits for room.
        let one_second = Duration::from_secs(1);
        assert_eq!(limit.admit("0", at(500)), Err(one_second / 2));
        assert_eq!(limit.admit("one more", at(999)), Err(one_second));
        assert_eq!(limit.buckets.lock().len(), MAX_CLIENTS);
        assert!(limit.admit("one more", at(1000)).is_ok());
        // Only the bucket of client 0 was not full again.
        assert_eq!(limit.buckets.lock().len(), 2);
    }
}
