//! The clock of the operating system.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcp_core::clock::Clock;

/// Measures the uptime since its creation.
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_time(&self) -> Duration {
        unix_time()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Returns the time since 1970.
pub(crate) fn unix_time() -> Duration {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.unwrap_or_default()
}
