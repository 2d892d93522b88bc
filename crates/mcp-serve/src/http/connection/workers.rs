//! Worker threads for connections whose requests wait for another server.
//!
//! A connection stays on its thread, with its timers and tasks, so that input for it wakes no other
//! thread; a work-stealing pool does that again and again. Where requests are answered at once, such a
//! pool is the faster one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// One thread for each processor, each with its own runtime. Dropping them ends them and the work that is
/// left on them.
pub struct Workers {
    workers: Vec<Arc<Worker>>,
    end: CancellationToken,
}

struct Worker {
    runtime: Handle,
    connections: AtomicUsize,
}

/// The place of a connection at a worker, until it is dropped.
pub(in crate::http) struct Place(Arc<Worker>);

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the operating system has none left.
    pub fn start() -> io::Result<Self> {
        let end = CancellationToken::new();
        let count = thread::available_parallelism().map_or(1, Into::into);
        let workers: io::Result<Vec<_>> = (0..count)
            .map(|number| Worker::start(number, end.clone()))
            .collect();
        Ok(Self {
            workers: workers?,
            end,
        })
    }

    /// A place at the worker that has the fewest connections.
    pub(in crate::http) fn place(&self) -> Place {
        let connections = |worker: &&Arc<Worker>| worker.connections.load(Ordering::Relaxed);
        let chosen = self.workers.iter().min_by_key(connections);
        let worker = Arc::clone(chosen.unwrap_or(&self.workers[0]));
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Place(worker)
    }
}

impl Worker {
    fn start(number: usize, end: CancellationToken) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let work = move || {
            runtime.block_on(end.cancelled());
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

impl Place {
    /// The runtime of that worker.
    pub(in crate::http) fn runtime(&self) -> Handle {
        self.0.runtime.clone()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Drop for Place {
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
        let mut places: Vec<_> = (0..2 * count).map(|_| workers.place()).collect();
        let loads = |workers: &Workers| -> Vec<_> {
            let connections = |worker: &Arc<Worker>| worker.connections.load(Ordering::Relaxed);
            workers.workers.iter().map(connections).collect()
        };
        assert_eq!(loads(&workers), vec![2; count]);
        drop(places.pop());
        places.push(workers.place());
        assert_eq!(loads(&workers), vec![2; count]);
    }
}
