//! Time, handed in from the edge so that the core has none of its own.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A clock that only goes forward.
pub trait Clock: Send + Sync {
    /// Time since the server started.
    fn uptime(&self) -> Duration;

    /// Time since 1970-01-01, for what must be understood by another process.
    fn unix_time(&self) -> Duration;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
