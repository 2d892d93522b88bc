//! The work for the thread with the connection.

use std::time::Duration;

use mcp_core::server::TaskOwner;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Work for the thread. An answer that is dropped says that the database cannot be used.
pub(super) enum Job {
    Connect(oneshot::Sender<()>),
    Claim(u128, oneshot::Sender<Claim>),
    EndSession(u128, Option<oneshot::Sender<()>>),
    SaveTask(SavedTask),
    FindTasks(TaskQuery),
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

/// A task that is to be stored.
pub(super) struct SavedTask {
    pub(super) owner: TaskOwner,
    pub(super) id: String,
    pub(super) json: String,
    pub(super) lifetime: Duration,
    pub(super) has_ended: bool,
    /// Dropped once it is stored, or has to wait for the database.
    pub(super) waiter: Option<oneshot::Sender<()>>,
    pub(super) _bytes: OwnedSemaphorePermit,
}

/// The tasks of an owner that are asked for: all, or the one with this id.
pub(super) struct TaskQuery {
    pub(super) owner: TaskOwner,
    pub(super) id: Option<String>,
    /// Dropped if the database cannot be used.
    pub(super) answer: oneshot::Sender<Vec<TaskRow>>,
}

/// A row of the tasks: its JSON, and whether its gateway has not got its lock.
pub(super) type TaskRow = (String, bool);
