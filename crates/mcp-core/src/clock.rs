//! The clock interface, which the program implements: the core itself reads no time.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A clock that only goes forward.
pub trait Clock: Send + Sync {
    /// Time since the server started.
    fn uptime(&self) -> Duration;

    /// Time since 1970-01-01, for timestamps that other processes read.
    fn unix_time(&self) -> Duration;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
