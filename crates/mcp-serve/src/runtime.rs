//! The threads that run a server.

use std::io;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};

/// The variable that tokio reads.
const THREADS: &str = "TOKIO_WORKER_THREADS";

/// Starts a thread for each processor, and a second one if there is a single processor. An answer of 4 MB takes 10 ms
/// of a thread, for which all other calls would wait; the system shares a processor sooner.
///
/// # Errors
/// If the operating system cannot start a thread.
pub(crate) fn start() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let is_single = available_parallelism().is_ok_and(|count| count.get() == 1);
    if is_single && std::env::var_os(THREADS).is_none() {
        builder.worker_threads(2);
    }
    builder.enable_all().build()
}
