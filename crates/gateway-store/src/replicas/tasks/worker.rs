//! The thread that stores and reads tasks.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{SavedTask, Table, TaskJob};
use crate::events::{PostgresConnection, StoreError, StoreFault, StoreLocation};
use crate::replicas::adoption::AdoptedTask;
use crate::replicas::worker::connect;

/// Time between two attempts to connect, and to store what could not be stored.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Tasks that wait while the database is away; the oldest are not stored.
const MAX_UNSAVED_TASKS: usize = 1_000;

pub(super) struct TaskWorker {
    location: StoreLocation,
    jobs: Receiver<TaskJob>,
    shared: Table,
    connection: Option<PostgresConnection>,
    /// The time of the last failure, until the database can be used again.
    failed: Option<Instant>,
    /// Tasks that are to be stored, oldest first.
    unsaved: VecDeque<SavedTask>,
}

impl TaskWorker {
    pub(super) fn new(location: StoreLocation, jobs: Receiver<TaskJob>, shared: Table) -> Self {
        Self {
            location,
            jobs,
            shared,
            connection: None,
            failed: None,
            unsaved: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let job = match self.unsaved.is_empty() {
                true => self.jobs.recv().map_err(RecvTimeoutError::from),
                false => self.jobs.recv_timeout(RETRY_INTERVAL),
            };
            match job {
                Ok(TaskJob::Save(task)) => {
                    if self.unsaved.len() >= MAX_UNSAVED_TASKS {
                        self.unsaved.pop_front();
                    }
                    self.unsaved.push_back(task);
                    self.save();
                }
                // Requests that have given up would make those after them wait as long.
                Ok(TaskJob::Find(query)) if query.is_cancelled() => {}
                Ok(TaskJob::Find(query)) => {
                    // It may ask for one of them.
                    self.save();
                    if let Err(error) = query.answer(self.connection.as_ref(), self.shared.key()) {
                        self.on_error(&error);
                    }
                }
                Ok(TaskJob::Adopt(task)) => {
                    self.save();
                    if let Err(error) = self.adopt(task) {
                        self.on_error(&error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.save(),
                Ok(TaskJob::Close) | Err(RecvTimeoutError::Disconnected) => return self.save(),
            }
        }
    }

    fn adopt(&self, task: AdoptedTask) -> Result<(), StoreError> {
        let away = || StoreError::unavailable("the database is away");
        let taken = self.connection.as_ref().ok_or_else(away);
        let taken = taken.and_then(|connection| task.take(&self.shared, connection));
        let failure = taken.as_ref().err().cloned();
        // An error means that the request has ended.
        let _ = task.answer.send(taken);
        failure.map_or(Ok(()), Err)
    }

    /// Connects if needed, and stores what waits.
    fn save(&mut self) {
        if let Err(error) = self.try_save() {
            self.on_error(&error);
        }
    }

    fn try_save(&mut self) -> Result<(), StoreError> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None if self.failed.is_some_and(|at| at.elapsed() < RETRY_INTERVAL) => {
                self.let_clients_go();
                return Ok(());
            }
            None => self.connection.insert(connect(&self.location)?),
        };
        while let Some(task) = self.unsaved.front() {
            match task.save(&self.shared, connection) {
                // It would be refused again, and hold up all others.
                Err(error) if error.fault == StoreFault::Rejected => {
                    tracing::warn!(reason = error.reason, "a task is not stored");
                }
                saved => saved?,
            }
            self.unsaved.pop_front();
        }
        self.failed = None;
        Ok(())
    }

    fn on_error(&mut self, error: &StoreError) {
        if self.failed.replace(Instant::now()).is_none() {
            let reason = &error.reason;
            tracing::warn!(reason, "tasks cannot be stored or found in the database");
        }
        self.connection = None;
        self.let_clients_go();
    }

    /// Lets the clients of tasks that are stored later get their answers.
    fn let_clients_go(&mut self) {
        self.unsaved.iter_mut().for_each(|task| task.waiter = None);
    }
}
