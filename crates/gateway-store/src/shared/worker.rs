//! The thread with the connection to the database. No request waits for it without a limit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_core::server::TaskOwner;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, interval, timeout_at};

use super::Known;
use super::tables::{CANCEL, ENDED, SWEEP_INTERVAL, Tables};
use crate::database::{StoreError, StoreFault, connect_to_postgres, in_time};

/// Time between two attempts to connect, and to get the lock of this gateway.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Writes that wait while the database is away; the oldest are not made.
const MAX_WAITING_WRITES: usize = 1_000;

/// Work for the thread. An answer that is dropped says that the database cannot be used.
pub(super) enum Job {
    Connect(oneshot::Sender<()>),
    Claim(u128, oneshot::Sender<Claim>),
    /// The sender is dropped once the write is made, or has to wait for the database.
    Write(Write, oneshot::Sender<()>),
    /// Finds all tasks of an owner, or the one with this id.
    FindTasks(TaskOwner, Option<String>, oneshot::Sender<Vec<TaskRow>>),
    CancelTask(String, oneshot::Sender<()>),
    Close,
}

/// The outcome of a claim for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The session is of this gateway from now on.
    Granted,
    /// The session has ended.
    Ended,
    /// The session is of a gateway without its lock.
    OfLostGateway,
}

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

/// A row of the tasks: its JSON, and whether its gateway has not got its lock.
pub(super) type TaskRow = (String, bool);

pub(super) struct Worker {
    address: String,
    jobs: Receiver<Job>,
    known: Arc<Known>,
    /// The writes that wait, oldest first, and those who wait for them.
    writes: VecDeque<(Write, Option<oneshot::Sender<()>>)>,
}

impl Worker {
    pub(super) fn new(address: String, jobs: Receiver<Job>, known: Arc<Known>) -> Self {
        Self {
            address,
            jobs,
            known,
            writes: VecDeque::new(),
        }
    }

    /// Works until the gateway ends.
    pub(super) async fn run(mut self) {
        let mut failure = None;
        while let Err(error) = self.follow().await {
            let was_connected = self.known.is_connected.swap(false, Ordering::Relaxed);
            if was_connected || failure.as_ref() != Some(&error.reason) {
                let reason = &error.reason;
                tracing::warn!(reason, "the database of the gateways cannot be used");
                failure = Some(error.reason);
            }
            if self.wait().await {
                return;
            }
        }
    }

    /// Connects, and works until the gateway ends.
    async fn follow(&mut self) -> Result<(), StoreError> {
        let connecting = in_time(async {
            let (client, notifications) = connect_to_postgres(&self.address).await?;
            Ok((Tables::open(client, self.known.own).await?, notifications))
        });
        let (tables, mut notifications) = connecting.await?;
        let tables = &tables;
        let mut is_locked = in_time(tables.lock()).await?;
        // Notifications of the time without a connection are lost.
        let ended = in_time(tables.ended_sessions()).await?;
        *self.known.ended_sessions.write() = ended.into_iter().collect();
        self.known.is_connected.store(true, Ordering::Relaxed);
        self.write(tables).await?;
        let mut look = interval(RETRY_INTERVAL);
        let mut swept = None::<Instant>;
        loop {
            tokio::select! {
                notification = notifications.recv() => match notification {
                    Some(text) => self.hear(&text),
                    None => return Err(StoreError::unavailable("the connection has ended")),
                },
                job = self.jobs.recv() => match job {
                    Some(Job::Close) => {
                        self.write(tables).await?;
                        in_time(tables.give_up_sessions()).await?;
                        return Ok(());
                    }
                    None => return Ok(()),
                    Some(job) => self.work(job, tables).await?,
                },
                _ = look.tick() => {
                    if !is_locked {
                        is_locked = in_time(tables.lock()).await?;
                    }
                    let others = in_time(tables.others()).await?;
                    self.known.others.store(others, Ordering::Relaxed);
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
            self.known.ended_sessions.write().extend(session);
        } else if let Some(id) = text.strip_prefix(CANCEL) {
            // An error means that no task runs here.
            let _ = self.known.cancelled.send(id.into());
        }
    }

    async fn work(&mut self, job: Job, tables: &Tables) -> Result<(), StoreError> {
        match job {
            Job::Write(write, waiter) => {
                self.keep(write, Some(waiter));
                self.write(tables).await?;
            }
            Job::Connect(done) => _ = done.send(()),
            // Requests that have given up would make those after them wait as long.
            Job::Claim(_, answer) if answer.is_closed() => {}
            Job::FindTasks(_, _, answer) if answer.is_closed() => {}
            Job::Claim(session, answer) => {
                let claim = in_time(tables.claim(session)).await?;
                let _ = answer.send(claim);
            }
            Job::FindTasks(owner, id, answer) => {
                let found = in_time(tables.tasks(&owner, id.as_deref())).await;
                let found = match found {
                    // No task has such an id; the connection is as before.
                    Err(error) if error.fault == StoreFault::Rejected => Vec::new(),
                    found => found?,
                };
                let _ = answer.send(found);
            }
            Job::CancelTask(id, done) => {
                in_time(tables.cancel_task(&id)).await?;
                let _ = done.send(());
            }
            Job::Close => {}
        }
        Ok(())
    }

    /// Makes the writes that wait, in their order.
    async fn write(&mut self, tables: &Tables) -> Result<(), StoreError> {
        while let Some((write, _)) = self.writes.front() {
            let written = match write {
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
            self.writes.pop_front();
        }
        Ok(())
    }

    /// Waits until the next attempt to connect. Meanwhile writes are kept, for which no client waits, and questions are not
    /// answered. Returns true if the gateway ends.
    async fn wait(&mut self) -> bool {
        for (_, waiter) in &mut self.writes {
            *waiter = None;
        }
        let until = Instant::now() + RETRY_INTERVAL;
        while let Ok(job) = timeout_at(until, self.jobs.recv()).await {
            match job {
                Some(Job::Close) | None => return true,
                Some(Job::Write(write, _)) => self.keep(write, None),
                // Drops the way to their answer.
                Some(
                    Job::Connect(_) | Job::Claim(..) | Job::FindTasks(..) | Job::CancelTask(..),
                ) => {}
            }
        }
        false
    }

    fn keep(&mut self, write: Write, waiter: Option<oneshot::Sender<()>>) {
        if self.writes.len() >= MAX_WAITING_WRITES {
            self.writes.pop_front();
        }
        self.writes.push_back((write, waiter));
    }
}
