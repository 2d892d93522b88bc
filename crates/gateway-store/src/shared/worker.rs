//! The thread that keeps the connection to the database: it holds the lock of this gateway, hears the others, and makes the
//! changes, which wait while the database is away.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_core::server::TaskOwner;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, OwnedSemaphorePermit, broadcast, oneshot, watch};
use tokio::time::{Instant, interval, sleep};

use super::tables::{CANCEL, ENDED, Tables};
use crate::database::{StoreError, StoreFault, connect_to_postgres, in_time};

/// Time between two attempts to connect, and to get the lock of this gateway.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of removing what has expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// Changes that wait for the database; more are refused.
const MAX_WAITING_WRITES: usize = 10_000;
/// Cancellations that a task may miss before it looks.
const MAX_CANCELLATIONS: usize = 1_000;

/// A change that is made later if the database is away.
pub(super) enum Write {
    EndSession(u128),
    SaveTask(SavedTask),
}

/// A task that is to be stored.
pub(super) struct SavedTask {
    pub(super) owner: TaskOwner,
    pub(super) id: String,
    pub(super) json: String,
    pub(super) lifetime: Duration,
    pub(super) has_ended: bool,
    pub(super) _bytes: OwnedSemaphorePermit,
}

/// The thread and those who use it share this.
pub(super) struct Shared {
    address: String,
    /// The number of this gateway in the tables.
    own: i32,
    /// The tables; `None` while the database cannot be reached.
    pub(super) tables: watch::Sender<Option<Arc<Tables>>>,
    pub(super) ended_sessions: RwLock<HashSet<u128>>,
    /// The ids of tasks whose cancellation another gateway asks for.
    pub(super) cancelled: broadcast::Sender<Arc<str>>,
    /// The other gateways that are alive.
    pub(super) others: AtomicUsize,
    /// The changes that wait, oldest first, and those who wait for them.
    writes: Mutex<VecDeque<(Arc<Write>, oneshot::Sender<()>)>>,
    write_added: Notify,
}

impl Shared {
    pub(super) fn new(own: i32, address: String) -> Self {
        Self {
            address,
            own,
            tables: watch::Sender::default(),
            ended_sessions: RwLock::default(),
            cancelled: broadcast::Sender::new(MAX_CANCELLATIONS),
            others: AtomicUsize::new(0),
            writes: Mutex::default(),
            write_added: Notify::new(),
        }
    }

    /// Adds a change. The receiver completes when it is made, and at once while the database is away.
    pub(super) fn write(&self, write: Write) -> oneshot::Receiver<()> {
        let (mut waiter, stored) = oneshot::channel();
        if self.tables.borrow().is_none() {
            waiter = oneshot::channel().0;
        }
        let mut writes = self.writes.lock();
        if writes.len() < MAX_WAITING_WRITES {
            writes.push_back((Arc::new(write), waiter));
            self.write_added.notify_one();
        } else {
            tracing::warn!("too many changes wait for the database of the gateways");
        }
        stored
    }

    /// Works until `closing` completes; if it was not dropped then, makes the changes that wait and gives up the sessions.
    pub(super) async fn run(&self, mut closing: oneshot::Receiver<()>) {
        let is_closed = tokio::select! {
            asked = &mut closing => asked.is_ok(),
            never = self.reconnect() => match never {},
        };
        let tables = self.tables.borrow().clone().filter(|_| is_closed);
        if let Some(tables) = tables {
            let closed = async {
                self.write_all(&tables).await?;
                in_time(tables.give_up_sessions()).await
            };
            if let Err(error) = closed.await {
                let reason = error.reason;
                tracing::warn!(reason, "the sessions of this gateway are not given up");
            }
        }
    }

    /// Connects again and again.
    async fn reconnect(&self) -> Infallible {
        let mut failure = None;
        loop {
            let Err(error) = self.follow().await;
            let was_connected = self.tables.send_replace(None).is_some();
            if was_connected || failure.as_ref() != Some(&error.reason) {
                let reason = &error.reason;
                tracing::warn!(reason, "the database of the gateways cannot be used");
                failure = Some(error.reason);
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Connects, and works until the connection fails.
    async fn follow(&self) -> Result<Infallible, StoreError> {
        let connecting = in_time(async {
            let (client, notifications) = connect_to_postgres(&self.address).await?;
            Ok((Tables::open(client, self.own).await?, notifications))
        });
        let (tables, mut notifications) = connecting.await?;
        let tables = Arc::new(tables);
        let mut is_locked = in_time(tables.lock()).await?;
        // Notifications of the time without a connection are lost.
        let ended = in_time(tables.ended_sessions()).await?;
        *self.ended_sessions.write() = ended.into_iter().collect();
        self.tables.send_replace(Some(Arc::clone(&tables)));
        let mut look = interval(RETRY_INTERVAL);
        let mut swept = None::<Instant>;
        loop {
            self.write_all(&tables).await?;
            tokio::select! {
                notification = notifications.recv() => match notification {
                    Some(text) => self.hear(&text),
                    None => return Err(StoreError::unavailable("the connection has ended")),
                },
                () = self.write_added.notified() => {}
                _ = look.tick() => {
                    if !is_locked {
                        is_locked = in_time(tables.lock()).await?;
                    }
                    let others = in_time(tables.others()).await?;
                    self.others.store(others, Ordering::Relaxed);
                    if swept.is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL) {
                        in_time(tables.sweep()).await?;
                        swept = Some(Instant::now());
                    }
                }
            }
        }
    }

    /// Reads a notification of another gateway. That of a later version means nothing.
    fn hear(&self, text: &str) {
        if let Some(session) = text.strip_prefix(ENDED) {
            let session = u128::from_str_radix(session, 16);
            self.ended_sessions.write().extend(session);
        } else if let Some(id) = text.strip_prefix(CANCEL) {
            // An error means that no task runs here.
            let _ = self.cancelled.send(id.into());
        }
    }

    /// Makes the changes that wait, in their order. One stays until it is made.
    async fn write_all(&self, tables: &Tables) -> Result<(), StoreError> {
        loop {
            let Some(write) = self
                .writes
                .lock()
                .front()
                .map(|(write, _)| Arc::clone(write))
            else {
                return Ok(());
            };
            let written = match &*write {
                Write::SaveTask(task) => in_time(tables.save_task(task)).await,
                Write::EndSession(session) => in_time(tables.end_session(*session)).await,
            };
            match written {
                // It would be refused again, and hold up all others.
                Err(error) if error.fault == StoreFault::Rejected => {
                    tracing::warn!(reason = error.reason, "a task is not stored");
                }
                written => written?,
            }
            // Drops the sender for which a client waits.
            self.writes.lock().pop_front();
        }
    }
}
