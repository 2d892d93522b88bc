//! Sessions and tasks of the gateways on one PostgreSQL database: which of them serves a session, and runs a task.
//!
//! A gateway is alive while it holds an advisory lock of the database, which ends with its connection. A load balancer
//! sends the requests of a session to one gateway; what that one knows of the session is lost with it. A task runs at the
//! gateway that has started it; the others read its state, and ask for its cancellation by `NOTIFY`.
//!
//! * [`tables`]: the tables and their queries.
//! * [`tasks`]: the tasks.
//! * [`worker`]: the thread with the connection.

mod tables;
mod tasks;
mod worker;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_serve::{SharedSessions, process_id};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{Semaphore, broadcast, oneshot};
use tokio::time::{sleep, timeout};

use self::worker::{Claim, Job, Worker, Write};
use crate::database::StoreLocation;

/// Jobs that wait for the database; more are refused.
const MAX_WAITING_JOBS: usize = 10_000;
/// Bytes of tasks that wait for the database.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Cancellations that a task may miss before it looks.
const MAX_CANCELLATIONS: usize = 1_000;
/// Timeout for a write for which a client waits; it is made later then.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for a request that reads.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// A gateway without its lock has ended if it has none after this time, either. One that has lost its connection gets
/// another one, and its lock again, within [`worker::RETRY_INTERVAL`].
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Sessions and tasks of the gateways on one database.
pub struct SharedTables {
    jobs: Sender<Job>,
    known: Arc<Known>,
    /// A permit for each byte of a task that may wait.
    bytes: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Facts that are known without a question to the database.
struct Known {
    /// The number of this gateway in the tables.
    own: i32,
    ended_sessions: RwLock<HashSet<u128>>,
    /// The ids of tasks whose cancellation another gateway asks for.
    cancelled: broadcast::Sender<Arc<str>>,
    /// The other gateways that are alive.
    others: AtomicUsize,
    is_connected: AtomicBool,
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
        let (jobs, waiting) = channel(MAX_WAITING_JOBS);
        let known = Arc::new(Known {
            own: i32::from_ne_bytes(process.to_ne_bytes()) & i32::MAX,
            ended_sessions: RwLock::default(),
            cancelled: broadcast::Sender::new(MAX_CANCELLATIONS),
            others: AtomicUsize::new(0),
            is_connected: AtomicBool::new(false),
        });
        let worker = Worker::new(address.clone(), waiting, Arc::clone(&known));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared".into());
        let thread = thread.spawn(move || runtime.block_on(worker.run()))?;
        Ok(Some(Self {
            jobs,
            known,
            bytes: Arc::new(Semaphore::new(MAX_WAITING_BYTES)),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Returns the number of other gateways that are alive, as it was known last.
    pub fn others(&self) -> usize {
        self.known.others.load(Ordering::Relaxed)
    }

    /// Returns the reason why the database cannot be used, if it cannot be reached.
    pub fn outage(&self) -> Option<&'static str> {
        let is_connected = self.known.is_connected.load(Ordering::Relaxed);
        (!is_connected).then_some("the database of the gateways cannot be reached")
    }

    /// Waits until the database was reached for the first time, but not for long.
    pub async fn ready(&self) {
        if self.ask(Job::Connect).await.is_none() {
            tracing::warn!("the database of the gateways cannot be reached yet");
        }
    }

    /// Gives up the sessions of this gateway, so that the others serve them, writes what waits, and stops the thread.
    /// Blocks for a few seconds at most.
    pub fn close(&self) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        // A full queue is emptied by the thread.
        let _ = self.jobs.blocking_send(Job::Close);
        if thread.join().is_err() {
            tracing::error!("the thread of the shared tables has panicked");
        }
    }

    /// Returns false if too many jobs wait.
    fn send(&self, job: Job) -> bool {
        let is_sent = self.jobs.try_send(job).is_ok();
        if !is_sent {
            tracing::warn!("too many changes wait for the database of the gateways");
        }
        is_sent
    }

    /// Returns the answer to a job; `None` if the database cannot be used.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.send(job(answer));
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }

    async fn try_claim(&self, session: u128) -> Option<Claim> {
        self.ask(|answer| Job::Claim(session, answer)).await
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
        self.known.ended_sessions.write().insert(session);
        let (stored, is_stored) = oneshot::channel();
        self.send(Job::Write(Write::EndSession(session), stored));
        Box::pin(async move {
            // It is stored later if the database does not answer.
            let _ = timeout(WRITE_TIMEOUT, is_stored).await;
        })
    }

    fn has_ended(&self, session: u128) -> bool {
        self.known.ended_sessions.read().contains(&session)
    }

    fn has_others(&self) -> bool {
        self.others() > 0
    }
}

#[cfg(test)]
mod tests;
