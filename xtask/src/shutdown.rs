//! The request to shut down: set by the first Ctrl-C or SIGTERM, checked by every wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes SIGINT, SIGTERM and SIGHUP request it.
pub(crate) fn on_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&REQUESTED))?;
    }
    Ok(())
}

pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

pub(crate) fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Polls `done`; returns true if it was true before the timeout and before a shutdown.
pub(crate) fn wait_until(timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    loop {
        if done() {
            return true;
        }
        if requested() || Instant::now() >= end {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

pub(crate) fn wait() {
    while !requested() {
        thread::sleep(POLL_INTERVAL);
    }
}
