//! Sessions and tasks of the gateways on one PostgreSQL database: which of them serves a session, and runs a task.
//!
//! A gateway is alive while it holds an advisory lock of the database, which ends with its connection. A load balancer
//! sends the requests of a session to one gateway; what that one knows of the session is lost with it. A task runs at the
//! gateway that has started it; the others read its state, and ask for its cancellation by `NOTIFY`.
//!
//! * [`tables`]: the tables and their queries.
//! * [`tasks`]: the tasks.
//! * [`follow`]: the part of the thread of the database: it holds the lock of this gateway, and hears the others.

mod follow;
mod tables;
mod tasks;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_serve::SharedSessions;
use parking_lot::RwLock;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};
use tokio::time::{sleep, timeout};

pub(crate) use self::follow::{Follower, LOOK_INTERVAL};
use self::tables::{Claim, Tables};
use crate::database::{Connection, Job, Queue, StoreError};

/// Bytes of tasks that wait for the database.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Cancellations that a task may miss before it looks.
const MAX_CANCELLATIONS: usize = 1_000;
/// Timeout for an answer of the database.
const ASK_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout for a write for which a client waits; it is made later then.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A gateway without its lock has ended if it has none after this time, either. One that has lost its connection gets
/// another one, and its lock again, within [`follow::LOOK_INTERVAL`].
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Sessions and tasks of the gateways on one database.
pub struct SharedTables {
    queue: Arc<Queue>,
    known: Arc<Known>,
    /// A permit for each byte of a task that may wait.
    bytes: Arc<Semaphore>,
}

/// The facts that the thread of the database has found.
struct Known {
    /// The number of this gateway in the tables.
    own: i64,
    /// False while the database cannot be reached.
    is_connected: watch::Sender<bool>,
    ended_sessions: RwLock<HashSet<u128>>,
    /// The ids of tasks whose cancellation another gateway asks for.
    cancelled: broadcast::Sender<Arc<str>>,
    /// The other gateways that are alive.
    others: AtomicUsize,
}

impl SharedTables {
    /// Shares what the gateway of this process has, by the thread that takes jobs from `queue`. Returns the part of that
    /// thread, too.
    pub(crate) fn new(process: u32, queue: Arc<Queue>) -> (Arc<Self>, Follower) {
        let known = Arc::new(Known {
            own: i64::from(process & i32::MAX.unsigned_abs()),
            is_connected: watch::Sender::default(),
            ended_sessions: RwLock::default(),
            cancelled: broadcast::Sender::new(MAX_CANCELLATIONS),
            others: AtomicUsize::new(0),
        });
        let tables = Self {
            queue,
            known: Arc::clone(&known),
            bytes: Arc::new(Semaphore::new(MAX_WAITING_BYTES)),
        };
        (Arc::new(tables), Follower::new(known))
    }

    /// Returns the number of other gateways that are alive, as it was known last.
    pub fn others(&self) -> usize {
        self.known.others.load(Ordering::Relaxed)
    }

    /// Returns the reason why the database cannot be used, if it cannot be reached.
    pub fn outage(&self) -> Option<&'static str> {
        let is_connected = *self.known.is_connected.borrow();
        (!is_connected).then_some("the database of the gateways cannot be reached")
    }

    /// Waits until the database was reached for the first time, but not for long.
    pub async fn ready(&self) {
        let mut is_connected = self.known.is_connected.subscribe();
        let connected = timeout(CONNECT_TIMEOUT, is_connected.wait_for(|is| *is));
        if connected.await.is_err() {
            tracing::warn!("the database of the gateways cannot be reached yet");
        }
    }

    /// Returns the answer of the database to a question; `None` if it cannot be used.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Tables<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Option<T> {
        let ((answer, answered), own) = (oneshot::channel(), self.known.own);
        let ask = move |database: &mut Connection| {
            // An error means that the caller does not wait any more.
            let _ = answer.send(question(&mut Tables { database, own })?);
            Ok(())
        };
        let is_asked = self.outage().is_none() && self.queue.ask(Job::Ask(Box::new(ask)));
        let answered = timeout(ASK_TIMEOUT, answered);
        if is_asked {
            answered.await.ok()?.ok()
        } else {
            None
        }
    }

    async fn try_claim(&self, session: u128) -> Option<Claim> {
        self.ask(move |tables| tables.claim(session)).await
    }

    /// Makes a change, or later if the database is away. Completes when it is made, but within a second.
    fn write(
        &self,
        mut change: impl FnMut(&mut Tables<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let ((stored, made), own) = (oneshot::channel(), self.known.own);
        let store = move |database: &mut Connection| change(&mut Tables { database, own });
        if !self.queue.ask(Job::Store(Box::new(store), stored)) {
            tracing::warn!("too many changes wait for the database of the gateways");
        }
        Box::pin(async move {
            let _ = timeout(WRITE_TIMEOUT, made).await;
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
        self.known.ended_sessions.write().insert(session);
        self.write(move |tables| tables.end_session(session))
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
