//! A place at which runs stand until the test lets them go on: how long they take depends on no clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::harness::HttpServer;

pub(super) struct Gate {
    server: HttpServer,
    arrived: Arc<AtomicUsize>,
    /// Has no permits, and is closed once runs may go on.
    opening: Arc<Semaphore>,
}

impl Gate {
    pub(super) async fn start() -> Self {
        let arrived = Arc::<AtomicUsize>::default();
        let opening = Arc::new(Semaphore::new(0));
        let gate = (Arc::clone(&arrived), Arc::clone(&opening));
        let server = HttpServer::start(move |_| {
            let (arrived, opening) = gate.clone();
            async move {
                arrived.fetch_add(1, Ordering::Relaxed);
                _ = opening.acquire().await;
                Ok(HttpServer::response(200, "application/json", "{}"))
            }
        })
        .await;
        Self {
            server,
            arrived,
            opening,
        }
    }

    /// The node that stands there.
    pub(super) fn node(&self) -> Value {
        http_request(&self.server.url)
    }

    /// Waits until this many runs have come.
    pub(super) async fn wait_for(&self, runs: usize) {
        wait_until("runs at the gate", async || {
            self.arrived.load(Ordering::Relaxed) >= runs
        })
        .await;
    }

    pub(super) fn open(&self) {
        self.opening.close();
    }
}
