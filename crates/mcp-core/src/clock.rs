//! The clock of the operating system.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since 1970.
pub fn unix_time() -> Duration {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.unwrap_or_default()
}
