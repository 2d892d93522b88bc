//! Tasks in the database, so that every replica can answer for one whose replica is gone.
//!
//! A row names the replica that runs its task ([`super::adoption`] says when that changes). The store ignores what another
//! one writes.
//!
//! They have a thread and a connection of their own ([`worker`]): clients decide how many there are, and how large, and
//! the beats of this process may not wait for that.

mod worker;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use mcp_core::server::{Place, ReplicaId, StoredTask, TaskOwner, TaskStore};
use mcp_core::tool::ToolError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use self::worker::TaskWorker;
use super::adoption::{self, AdoptedTask};
use super::peers::Peers;
use super::{ReplicaTable, SharedTable};
use crate::events::{PostgresConnection, StoreError, StoreFault, StoreLocation};

/// Tasks and questions that wait for the database.
const MAX_WAITING_JOBS: usize = 1_000;
/// Bytes of tasks that wait for the database.
const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Timeout for the first row of a task, for which its client waits.
const SAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for a request that reads tasks.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a list of tasks, whose results are read with them; the one that exceeds the limit is the last.
const MAX_LIST_BYTES: i64 = 8 * 1024 * 1024;
/// The random digits at the beginning of an id.
const ID_DIGITS: usize = 32;
/// A longer id does not fit into the index.
const MAX_ID_BYTES: usize = 2_000;

const SAVE: &str = "
    insert into mcp_tasks (owner, id, task, expires, replica, has_ended, can_move, key)
        values ($1, $2, $3, now() + $4 * interval '1 millisecond', $5, $6, $7, $8)
        on conflict (owner, id) do update
            set task = excluded.task, has_ended = excluded.has_ended, can_move = excluded.can_move
            where mcp_tasks.replica = excluded.replica and not mcp_tasks.is_lost
";
const FIND: &str = "
    select task, replica, is_lost from mcp_tasks
        where owner = $1 and id = $3 and expires > now() and (key is null or key = $2)
";
/// The newest tasks, oldest first.
const LIST: &str = "
    select task, replica, is_lost from (
        select task, created, id, replica, is_lost, sum(octet_length(task)) over newest - octet_length(task) as newer
            from mcp_tasks where owner = $1 and expires > now() and (key is null or key = $2)
            window newest as (order by created desc, id rows unbounded preceding)
            order by created desc, id limit 1000
    ) as own where newer < $3 order by created, id desc
";

/// The table as its threads share it.
type Table = Arc<SharedTable>;

/// The way to the thread of the tasks.
pub(super) struct Tasks {
    jobs: SyncSender<TaskJob>,
    /// A permit for each byte that may wait.
    bytes: Arc<Semaphore>,
    shared: Table,
}

enum TaskJob {
    Save(SavedTask),
    Find(TaskQuery),
    Adopt(AdoptedTask),
    Close,
}

/// A task that is to be stored.
struct SavedTask {
    owner: TaskOwner,
    id: String,
    json: String,
    lifetime: Duration,
    has_ended: bool,
    can_move: bool,
    /// Dropped once it is stored, or has to wait for the database.
    waiter: Option<oneshot::Sender<()>>,
    _bytes: OwnedSemaphorePermit,
}

/// The tasks of an owner that are asked for: all, or the one with this id.
struct TaskQuery {
    owner: TaskOwner,
    id: Option<String>,
    answer: oneshot::Sender<Result<Vec<TaskRow>, StoreError>>,
}

/// A row of the table.
struct TaskRow {
    json: String,
    replica: Option<ReplicaId>,
    is_lost: bool,
}

impl Tasks {
    /// Starts the thread. It connects when there is a task or a question.
    pub(super) fn start(
        location: StoreLocation,
        shared: Table,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (jobs, waiting) = sync_channel(MAX_WAITING_JOBS);
        let worker = TaskWorker::new(location, waiting, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("replica-tasks".into());
        let thread = thread.spawn(move || worker.run())?;
        let bytes = Arc::new(Semaphore::new(MAX_WAITING_BYTES));
        let tasks = Self {
            jobs,
            bytes,
            shared,
        };
        Ok((tasks, thread))
    }

    /// Stores what waits, and ends the thread.
    pub(super) fn close(&self) {
        // A full queue is emptied by the thread.
        let _ = self.jobs.send(TaskJob::Close);
    }

    fn save(
        &self,
        owner: TaskOwner,
        task: StoredTask,
        lifetime: Duration,
    ) -> BoxFuture<'static, ()> {
        let (waiter, stored) = oneshot::channel();
        let stored = Box::pin(timeout(SAVE_TIMEOUT, stored).map(drop));
        let Ok(json) = serde_json::to_string(&task) else {
            return stored;
        };
        let (has_ended, can_move) = (task.has_ended(), task.can_move());
        let id = task.id;
        let size = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(size);
        let sent = bytes.ok().filter(|_| is_id(&id)).is_some_and(|bytes| {
            let task = SavedTask {
                owner,
                id,
                json,
                lifetime,
                has_ended,
                can_move,
                waiter: Some(waiter),
                _bytes: bytes,
            };
            self.jobs.try_send(TaskJob::Save(task)).is_ok()
        });
        if !sent {
            tracing::warn!(
                "a task is not stored: too many wait for the database, or its id is too long"
            );
        }
        stored
    }

    async fn read(
        &self,
        owner: TaskOwner,
        id: Option<String>,
    ) -> Result<Vec<StoredTask>, ToolError> {
        let (answer, answered) = oneshot::channel();
        let job = TaskJob::Find(TaskQuery { owner, id, answer });
        let sent = self.jobs.try_send(job).is_ok();
        match timeout(READ_TIMEOUT, answered).await {
            Ok(Ok(Ok(found))) if sent => {
                let peers = self.shared.peers.read();
                let found = found.iter().map(|row| row.task(&peers));
                Ok(found.flatten().collect())
            }
            _ => Err(unavailable()),
        }
    }

    /// Takes a task if its replica has ended.
    async fn adopt(&self, owner: TaskOwner, task: &StoredTask) -> Result<(), ToolError> {
        let Some(from) = task.replica else {
            return Ok(());
        };
        let adoption = self.shared.peers.read().adoption(from);
        let Some(beat) = adoption::condition(adoption) else {
            return Ok(());
        };
        let (answer, answered) = oneshot::channel();
        let id = task.id.clone();
        let job = TaskJob::Adopt(AdoptedTask {
            owner,
            id,
            from,
            beat,
            answer,
        });
        let sent = self.jobs.try_send(job).is_ok();
        match timeout(READ_TIMEOUT, answered).await {
            Ok(Ok(Ok(()))) if sent => Ok(()),
            _ => Err(unavailable()),
        }
    }
}

/// The error of a request that needs the database.
fn unavailable() -> ToolError {
    ToolError::unavailable(
        "The task cannot be looked up: the database of the gateway cannot be reached. Try again.",
    )
}

impl TaskRow {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let replica: Option<i64> = row.try_get(1)?;
        let replica = replica.and_then(|bits| u32::try_from(bits).ok());
        Ok(Self {
            json: row.try_get(0)?,
            replica: replica.map(ReplicaId::new),
            is_lost: row.try_get(2)?,
        })
    }

    /// Returns the task; `None` if it is of a later version, in another form.
    fn task(&self, peers: &Peers) -> Option<StoredTask> {
        let task: StoredTask = serde_json::from_str(&self.json).ok()?;
        // One of an earlier version is with the process that has made it.
        let replica = self.replica.or_else(|| ReplicaId::from_digits(&task.id));
        let place = replica.map_or(Place::Gone, |replica| peers.last_place(replica));
        Some(task.found(replica, place, self.is_lost))
    }
}

impl SavedTask {
    fn save(
        &self,
        shared: &SharedTable,
        connection: &PostgresConnection,
    ) -> Result<(), StoreError> {
        let lifetime = self.lifetime.as_secs_f64() * 1_000.0;
        let (own, key) = (i64::from(shared.own.bits()), shared.key());
        let values: [(&(dyn ToSql + Sync), Type); 8] = [
            (&&self.owner[..], Type::BYTEA),
            (&self.id, Type::TEXT),
            (&self.json, Type::TEXT),
            (&lifetime, Type::FLOAT8),
            (&own, Type::INT8),
            (&self.has_ended, Type::BOOL),
            (&self.can_move, Type::BOOL),
            (&key, Type::TEXT),
        ];
        let client = &connection.client;
        connection.within(async {
            client.execute_typed(SAVE, &values).await?;
            Ok(())
        })
    }
}

impl TaskQuery {
    /// Returns true if the request has ended.
    fn is_cancelled(&self) -> bool {
        self.answer.is_closed()
    }

    /// Answers it. Returns the failure of the connection, if that is the reason.
    fn answer(
        self,
        connection: Option<&PostgresConnection>,
        key: Option<&str>,
    ) -> Result<(), StoreError> {
        let away = || StoreError::unavailable("the database is away");
        let found = match connection.map(|connection| self.find(connection, key)) {
            // No task has such an id; the connection is as before.
            Some(Err(error)) if error.fault == StoreFault::Rejected => Ok(Vec::new()),
            Some(found) => found,
            None => Err(away()),
        };
        let failure = found.as_ref().err().cloned();
        // An error means that the request has ended.
        let _ = self.answer.send(found);
        failure.map_or(Ok(()), Err)
    }

    fn find(
        &self,
        connection: &PostgresConnection,
        key: Option<&str>,
    ) -> Result<Vec<TaskRow>, StoreError> {
        let owner = &self.owner[..];
        let key: (&(dyn ToSql + Sync), Type) = (&key, Type::TEXT);
        let owner: (&(dyn ToSql + Sync), Type) = (&owner, Type::BYTEA);
        let client = &connection.client;
        let rows = connection.within(async {
            Ok(match &self.id {
                Some(id) => {
                    client
                        .query_typed(FIND, &[owner, key, (id, Type::TEXT)])
                        .await?
                }
                None => {
                    let limit: (&(dyn ToSql + Sync), Type) = (&MAX_LIST_BYTES, Type::INT8);
                    client.query_typed(LIST, &[owner, key, limit]).await?
                }
            })
        })?;
        rows.iter().map(TaskRow::read).collect()
    }
}

/// Returns the random digits with which the id of a task begins.
pub(super) fn digits(id: &str) -> &str {
    id.get(..ID_DIGITS).unwrap_or(id)
}

/// Returns true for the form of the ids of tasks: random digits, and for a task of a backend its name there after a dot.
fn is_id(text: &str) -> bool {
    let (digits, rest) = text.split_at_checked(ID_DIGITS).unwrap_or_default();
    let are_digits = digits.len() == ID_DIGITS
        && digits
            .bytes()
            .all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let is_rest = rest.is_empty() || rest.starts_with('.') && !rest.contains('\0');
    are_digits && is_rest && text.len() <= MAX_ID_BYTES
}

impl TaskStore for ReplicaTable {
    fn save(
        &self,
        owner: TaskOwner,
        task: StoredTask,
        lifetime: Duration,
    ) -> BoxFuture<'static, ()> {
        self.tasks.save(owner, task, lifetime)
    }

    fn find<'a>(
        &'a self,
        owner: TaskOwner,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredTask>, ToolError>> {
        Box::pin(async move {
            if !is_id(id) {
                return Ok(None);
            }
            Ok(self.tasks.read(owner, Some(id.to_owned())).await?.pop())
        })
    }

    fn list(&self, owner: TaskOwner) -> BoxFuture<'_, Result<Vec<StoredTask>, ToolError>> {
        Box::pin(self.tasks.read(owner, None))
    }

    fn adopt<'a>(
        &'a self,
        owner: TaskOwner,
        task: &'a StoredTask,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(self.tasks.adopt(owner, task))
    }

    fn taken<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.shared.until(|_| self.shared.has_taken(id)))
    }

    fn has_taken(&self, id: &str) -> bool {
        self.shared.has_taken(id)
    }

    fn certain(&self) -> BoxFuture<'_, ()> {
        let is_certain = |peers: &Peers| peers.is_current(Instant::now());
        Box::pin(self.shared.until(is_certain))
    }
}

#[cfg(test)]
mod tests;
