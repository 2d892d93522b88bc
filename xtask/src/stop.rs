//! The wish to end: set by the first Ctrl-C or SIGTERM, looked at by every wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Shared by all threads; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that SIGINT, SIGTERM and SIGHUP raise. The second signal ends this
    /// process at once; the guards of the children notice that and end them.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop.0))?;
            flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// True once somebody asked this process to end.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks every wait of this process to end.
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Asks `done` again and again; true when it said yes before the time was
    /// over and before somebody asked to stop.
    pub(crate) fn wait_until(&self, limit: Duration, mut done: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + limit;
        loop {
            if done() {
                return true;
            }
            if self.requested() || Instant::now() >= end {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Sleeps until somebody asks to stop.
    pub(crate) fn wait(&self) {
        while !self.requested() {
            thread::sleep(LOOK_EVERY);
        }
    }
}
