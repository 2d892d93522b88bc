//! Random numbers for ids and delays, without a system call for each.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns an unpredictable number: a hash under keys that the operating system has chosen once.
pub fn number() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a number between 0 and 1.
pub fn fraction() -> f64 {
    f64::from((number() >> 32) as u32) / f64::from(u32::MAX)
}
