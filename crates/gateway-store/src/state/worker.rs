//! The thread that reads, writes and follows the state.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::database::{EntryChange, MAX_REMOVED_AGE, StateClock, StateDatabase};
use super::{Entries, Expected};
use crate::events::{StoreError, StoreLocation};

/// Interval for noticing changes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Limits of the backoff after a failure; the delay doubles each time.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The outcome of a change.
type Answer = oneshot::Sender<Result<bool, StoreError>>;

/// Work for the thread.
pub(super) enum Job {
    Change(Vec<EntryChange>, Option<Answer>),
    Close,
}

pub(super) struct Worker {
    location: StoreLocation,
    jobs: Receiver<Job>,
    entries: watch::Sender<Arc<Entries>>,
    database: Option<Box<dyn StateDatabase>>,
    /// The database and the revision of the entries.
    clock: StateClock,
    retry_at: Instant,
    retry_delay: Duration,
    /// The last failure, to log each only once.
    failure: Option<String>,
}

impl Worker {
    pub(super) fn new(
        location: StoreLocation,
        jobs: Receiver<Job>,
        entries: watch::Sender<Arc<Entries>>,
    ) -> Self {
        Self {
            location,
            jobs,
            entries,
            database: None,
            clock: StateClock::default(),
            retry_at: Instant::now(),
            retry_delay: MIN_RETRY_DELAY,
            failure: None,
        }
    }

    pub(super) fn run(mut self) {
        self.follow();
        loop {
            match self.jobs.recv_timeout(POLL_INTERVAL) {
                Ok(Job::Change(changes, answer)) => {
                    let changed = self.change(&changes);
                    if let Some(answer) = answer {
                        // An error means that the caller does not wait any more.
                        let _ = answer.send(changed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.follow(),
                Ok(Job::Close) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn change(&mut self, changes: &[EntryChange]) -> Result<bool, StoreError> {
        self.follow();
        let Some(database) = &mut self.database else {
            let reason = self.failure.clone().unwrap_or_default();
            return Err(StoreError::unavailable(reason));
        };
        if changes.is_empty() {
            return Ok(true);
        }
        let applied = database.apply(changes);
        match &applied {
            Ok(_) => self.follow(),
            Err(error) => self.on_error(error),
        }
        applied
    }

    /// Reads what has changed since the last time.
    fn follow(&mut self) {
        if self.database.is_none() && Instant::now() < self.retry_at {
            return;
        }
        if let Err(error) = self.read() {
            self.on_error(&error);
        }
    }

    fn read(&mut self) -> Result<(), StoreError> {
        let was_closed = self.database.is_none();
        let database = match &mut self.database {
            Some(database) => database,
            None => self.database.insert(super::open(&self.location)?),
        };
        let mut clock = database.clock()?;
        if !was_closed && clock == self.clock {
            return Ok(());
        }
        let known = Arc::clone(&self.entries.borrow());
        let is_other = clock.database != self.clock.database;
        if is_other && known.are_read {
            // The database was replaced: what was in the old one is not lost.
            let found = Entries::read(&mut **database)?;
            let missing = known.by_key.iter();
            let missing = missing.filter(|(key, _)| !found.by_key.contains_key(*key));
            let missing = missing.map(|((kind, key), entry)| EntryChange {
                kind: *kind,
                key: key.clone(),
                expected: Expected::Missing,
                value: Some(Arc::clone(&entry.value)),
            });
            let missing: Vec<EntryChange> = missing.collect();
            if !missing.is_empty() {
                tracing::warn!(
                    count = missing.len(),
                    "the state is stored again in a new database"
                );
                database.apply(&missing)?;
            }
            clock = database.clock()?;
        }
        let is_incremental = !is_other && clock.revision - self.clock.revision < MAX_REMOVED_AGE;
        let entries = if is_incremental && known.are_read {
            let mut entries = Entries::clone(&known);
            entries.add(database.changes(self.clock.revision)?);
            entries
        } else {
            Entries::read(&mut **database)?
        };
        // Changes that came after `clock` was read are read again the next time.
        self.clock = clock;
        self.failure = None;
        self.retry_delay = MIN_RETRY_DELAY;
        self.entries.send_replace(Arc::new(entries));
        Ok(())
    }

    fn on_error(&mut self, error: &StoreError) {
        self.database = None;
        self.retry_at = Instant::now() + self.retry_delay;
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
        let reason = &error.reason;
        if self.failure.as_ref() != Some(reason) {
            tracing::warn!(
                reason,
                "the state cannot be stored; the one that was read last holds"
            );
            self.failure = Some(reason.clone());
        }
    }
}
