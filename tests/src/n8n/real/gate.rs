//! A place at which runs stand until the test lets them go on: how long they take depends on no clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::harness::HttpServer;

pub(super) struct Gate {
    server: HttpServer,
    state: Arc<State>,
}

struct State {
    arrived: AtomicUsize,
    /// Has no permits, and is closed once runs may go on.
    opening: Semaphore,
}

impl Gate {
    pub(super) async fn start() -> Self {
        let (arrived, opening) = (AtomicUsize::new(0), Semaphore::new(0));
        let state = Arc::new(State { arrived, opening });
        let of_server = Arc::clone(&state);
        let server = HttpServer::start(move |_| {
            let state = Arc::clone(&of_server);
            async move {
                state.arrived.fetch_add(1, Ordering::Relaxed);
                _ = state.opening.acquire().await;
                Ok(HttpServer::response(200, "application/json", "{}"))
            }
        })
        .await;
        Self { server, state }
    }

    /// The node that stands there.
    pub(super) fn node(&self) -> Value {
        http_request(&self.server.url)
    }

    /// Waits until this many runs have come.
    pub(super) async fn wait_for(&self, runs: usize) {
        let arrived = &self.state.arrived;
        wait_until("runs at the gate", async || {
            arrived.load(Ordering::Relaxed) >= runs
        })
        .await;
    }

    pub(super) fn open(&self) {
        self.state.opening.close();
    }
}
