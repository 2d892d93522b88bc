//! Sessions and tasks of the gateways on one PostgreSQL database: which of them serves a session, and runs a task.
//!
//! A gateway is alive while it holds an advisory lock of the database, which ends with its connection. A load balancer
//! sends the requests of a session to one gateway; what that one knows of the session is lost with it. A task runs at the
//! gateway that has started it; the others read its state, and ask for its cancellation by `NOTIFY`.
//!
//! * [`tables`]: the tables and their queries, which requests use directly.
//! * [`tasks`]: the tasks.
//! * [`worker`]: the thread that keeps the connection, and makes the changes.

mod tables;
mod tasks;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_serve::{SharedSessions, process_id};
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use self::tables::{Claim, Tables};
use self::worker::{Shared, Write};
use crate::database::{StoreError, StoreLocation, in_time};

/// Bytes of tasks that wait for the database.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Timeout for a write for which a client waits; it is made later then.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A gateway without its lock has ended if it has none after this time, either. One that has lost its connection gets
/// another one, and its lock again, within [`worker::RETRY_INTERVAL`].
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Sessions and tasks of the gateways on one database.
pub struct SharedTables {
    shared: Arc<Shared>,
    /// A permit for each byte of a task that may wait.
    bytes: Arc<Semaphore>,
    /// The thread, and the way to close it; without that it gives nothing up.
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl SharedTables {
    /// Starts to share what this gateway has with the others on its database; `None` for a database of one gateway.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(location: &StoreLocation) -> std::io::Result<Option<Self>> {
        Self::start_as(process_id(), location)
    }

    fn start_as(process: u32, location: &StoreLocation) -> std::io::Result<Option<Self>> {
        let StoreLocation::Postgres(address) = location else {
            return Ok(None);
        };
        let own = i32::from_ne_bytes(process.to_ne_bytes()) & i32::MAX;
        let shared = Arc::new(Shared::new(own, address.clone()));
        let (close, closing) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("shared".into());
        let thread = thread.spawn(move || runtime.block_on(worker.run(closing)))?;
        Ok(Some(Self {
            shared,
            bytes: Arc::new(Semaphore::new(MAX_WAITING_BYTES)),
            thread: Mutex::new(Some((close, thread))),
        }))
    }

    /// Returns the number of other gateways that are alive, as it was known last.
    pub fn others(&self) -> usize {
        self.shared.others.load(Ordering::Relaxed)
    }

    /// Returns the reason why the database cannot be used, if it cannot be reached.
    pub fn outage(&self) -> Option<&'static str> {
        let is_connected = self.shared.tables.borrow().is_some();
        (!is_connected).then_some("the database of the gateways cannot be reached")
    }

    /// Waits until the database was reached for the first time, but not for long.
    pub async fn ready(&self) {
        let mut tables = self.shared.tables.subscribe();
        let connected = timeout(CONNECT_TIMEOUT, tables.wait_for(Option::is_some));
        if connected.await.is_err() {
            tracing::warn!("the database of the gateways cannot be reached yet");
        }
    }

    /// Gives up the sessions of this gateway, so that the others serve them, writes what waits, and stops the thread.
    /// Blocks for a few seconds at most.
    pub fn close(&self) {
        let Some((close, thread)) = self.thread.lock().take() else {
            return;
        };
        // An error means that the thread has ended.
        let _ = close.send(());
        if thread.join().is_err() {
            tracing::error!("the thread of the shared tables has panicked");
        }
    }

    /// Returns the answer of the database to a question; `None` if it cannot be used.
    async fn ask<T, A: Future<Output = Result<T, StoreError>>>(
        &self,
        question: impl FnOnce(Arc<Tables>) -> A,
    ) -> Option<T> {
        let tables = self.shared.tables.borrow().clone()?;
        let answer = in_time(question(tables)).await;
        // A connection that has failed is replaced by the thread.
        let failed = |error: &StoreError| tracing::debug!(reason = error.reason, "no answer");
        answer.inspect_err(failed).ok()
    }

    async fn try_claim(&self, session: u128) -> Option<Claim> {
        let claim = |tables: Arc<Tables>| async move { tables.claim(session).await };
        self.ask(claim).await
    }

    /// Makes a change, or later if the database is away. Completes when it is made, but within a second.
    fn write(&self, write: Write) -> BoxFuture<'static, ()> {
        let stored = self.shared.write(write);
        Box::pin(async move {
            let _ = timeout(WRITE_TIMEOUT, stored).await;
        })
    }
}

impl SharedSessions for SharedTables {
    fn claim(&self, session: u128) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match self.try_claim(session).await {
                Some(Claim::OfLostGateway) => {}
                Some(claim) => return claim == Claim::Granted,
                // A session says by itself whether it is valid: its calls go on without the database.
                None => return true,
            }
            sleep(GONE_AFTER).await;
            if self.try_claim(session).await == Some(Claim::OfLostGateway) {
                self.end(session).await;
                return false;
            }
            true
        })
    }

    fn end(&self, session: u128) -> BoxFuture<'_, ()> {
        self.shared.ended_sessions.write().insert(session);
        self.write(Write::EndSession(session))
    }

    fn has_ended(&self, session: u128) -> bool {
        self.shared.ended_sessions.read().contains(&session)
    }

    fn has_others(&self) -> bool {
        self.others() > 0
    }
}

#[cfg(test)]
mod tests;
