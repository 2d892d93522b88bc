//! The request to shut down: set by the first Ctrl-C or SIGTERM, checked by every wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A flag that all threads share; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    /// Creates a flag that SIGINT, SIGTERM and SIGHUP set. The second signal ends this process at
    /// once; the reapers of the children notice that and end them.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&shutdown.0))?;
            flag::register(signal, Arc::clone(&shutdown.0))?;
        }
        Ok(shutdown)
    }

    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Polls `done`; returns true if it was true before the timeout and before a shutdown.
    pub(crate) fn wait_until(&self, timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + timeout;
        loop {
            if done() {
                return true;
            }
            if self.requested() || Instant::now() >= end {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn wait(&self) {
        while !self.requested() {
            thread::sleep(POLL_INTERVAL);
        }
    }
}
