//! Worker threads for connections whose requests wait for another server.
//!
//! A connection stays on its thread, with its timers and tasks, so that its input wakes no other thread.
//! A work-stealing pool wakes other threads all the time; it is faster only where requests are answered
//! at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// One thread for each processor, each with its own runtime. Dropping it ends the threads and their work.
pub struct Workers {
    workers: Vec<Arc<Worker>>,
    stop: CancellationToken,
}

struct Worker {
    runtime: Handle,
    connections: AtomicUsize,
}

/// Counts a connection at its worker until it is dropped.
pub(in crate::http) struct WorkerSlot(Arc<Worker>);

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let count = thread::available_parallelism().map_or(1, Into::into);
        let workers: io::Result<Vec<_>> = (0..count)
            .map(|number| Worker::start(number, stop.clone()))
            .collect();
        Ok(Self {
            workers: workers?,
            stop,
        })
    }

    /// Takes a slot at the worker with the fewest connections.
    pub(in crate::http) fn take_slot(&self) -> WorkerSlot {
        let connections = |worker: &&Arc<Worker>| worker.connections.load(Ordering::Relaxed);
        let chosen = self.workers.iter().min_by_key(connections);
        let worker = Arc::clone(chosen.unwrap_or(&self.workers[0]));
        worker.connections.fetch_add(1, Ordering::Relaxed);
        WorkerSlot(worker)
    }
}

impl Worker {
    fn start(number: usize, stop: CancellationToken) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let work = move || {
            runtime.block_on(stop.cancelled());
            runtime.shutdown_background();
        };
        let name = format!("worker-{number}");
        thread::Builder::new().name(name).spawn(work)?;
        Ok(Arc::new(Self {
            runtime: handle,
            connections: AtomicUsize::new(0),
        }))
    }
}

impl WorkerSlot {
    /// The runtime of the worker.
    pub(in crate::http) fn runtime(&self) -> Handle {
        self.0.runtime.clone()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_goes_to_the_worker_with_the_fewest() {
        let workers = Workers::start().unwrap();
        let count = workers.workers.len();
        let mut slots: Vec<_> = (0..2 * count).map(|_| workers.take_slot()).collect();
        let loads = |workers: &Workers| -> Vec<_> {
            let connections = |worker: &Arc<Worker>| worker.connections.load(Ordering::Relaxed);
            workers.workers.iter().map(connections).collect()
        };
        assert_eq!(loads(&workers), vec![2; count]);
        drop(slots.pop());
        slots.push(workers.take_slot());
        assert_eq!(loads(&workers), vec![2; count]);
    }
}
