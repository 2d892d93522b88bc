//! The thread of the database, with its one connection. It writes events in batches, makes changes of the state and
//! follows those of others, answers for sessions and tasks, removes old events, and opens the database again after a
//! failure.
//!
//! A failing database does not affect calls: events wait in a bounded queue, more events are counted and dropped,
//! the entries of the state that were read last hold, and writing is tried again with a backoff.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use upstream::time::Timestamp;

use crate::database::{
    Connection, Job, MAX_BATCH_EVENTS, Queue, QueueState, Store, StoreError, StoreFault,
    StoreLocation, new_name,
};
use crate::events::{
    Event, EventLog, EventReader, EventStatus, Record, Retention, append, kind, retain,
};
use crate::shared::{Follower, LOOK_INTERVAL, SharedTables};
use crate::state::{self, Entries, EntryChange, StateClock, StateStore};

/// An event waits for this time for others, so that one transaction writes many.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// Interval for noticing changes of the state by other processes, and that the file is in its place.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Limit for the changes of sessions and tasks that wait for the database; more are lost.
const MAX_WAITING_STORES: usize = 10_000;

/// Interval for removing old events: while there are new ones, and otherwise.
const RETAIN_INTERVAL: Duration = Duration::from_secs(1);
const IDLE_RETAIN_INTERVAL: Duration = Duration::from_secs(60);

/// Limits of the backoff after a failure; the delay doubles each time.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The open database of a running gateway.
pub struct Database {
    /// The event log.
    pub log: Arc<EventLog>,
    /// The state.
    pub state: Arc<StateStore>,
    /// Sessions and tasks of the gateways on it; `None` for a database of one gateway, and for a command.
    pub shared: Option<Arc<SharedTables>>,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Starts the thread of the database, which opens it and tries again if that fails. `process` is the number of a
    /// gateway, which shares its sessions and tasks with the others on the database; `None` for a command.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        location: StoreLocation,
        retention: Retention,
        process: Option<u32>,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let process = process.filter(|_| matches!(location, StoreLocation::Postgres(_)));
        let shared = process.map(|process| SharedTables::new(process, Arc::clone(&queue)));
        let (shared, follower) = shared.unzip();
        let name = new_name();
        let (entries, followed) = watch::channel(Arc::default());
        let reader = EventReader::new(location.clone(), name.clone());
        let actor = Actor::new(
            location,
            name,
            Arc::clone(&queue),
            retention,
            entries,
            follower,
        );
        let actor = thread::Builder::new()
            .name("database".into())
            .spawn(move || actor.run())?;
        Ok(Self {
            log: Arc::new(EventLog::new(Arc::clone(&queue), reader)),
            state: Arc::new(StateStore::new(Arc::clone(&queue), followed)),
            shared,
            queue,
            thread: Mutex::new(Some(actor)),
        })
    }

    /// Makes the changes that wait, tries once to write the events, and stops the thread. Blocks for a few seconds at
    /// most.
    pub fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the database has panicked");
        }
    }
}

impl Drop for Database {
    /// Stops the thread without waiting for it.
    fn drop(&mut self) {
        self.queue.close();
    }
}

struct Actor {
    location: StoreLocation,
    /// That of the database, if it is in memory.
    name: String,
    queue: Arc<Queue>,
    retention: Retention,
    entries: watch::Sender<Arc<Entries>>,
    /// Follows the other gateways, if there can be any.
    follower: Option<Follower>,
    /// The changes that wait, oldest first, and those who wait for them.
    stores: VecDeque<(Store, Option<oneshot::Sender<()>>)>,
    connection: Option<Connection>,
    /// Events that were taken from the queue and are not yet written.
    batch: Vec<Record>,
    /// Number of dropped events that are already reported by an event.
    reported_drops: u64,
    /// The reason why the database was replaced, until an event reports it.
    replaced: Option<String>,
    /// The database and the revision of the entries.
    clock: StateClock,
    /// `None` until the state was read through this connection.
    last_poll: Option<Instant>,
    last_retain: Instant,
    /// True if events were written since then.
    has_new_events: bool,
    /// True if there may be more old events to remove.
    has_excess: bool,
    /// The time of the next try after a failure, and the delay after the next failure.
    retry_at: Instant,
    retry_delay: Duration,
}

impl Actor {
    fn new(
        location: StoreLocation,
        name: String,
        queue: Arc<Queue>,
        retention: Retention,
        entries: watch::Sender<Arc<Entries>>,
        follower: Option<Follower>,
    ) -> Self {
        Self {
            location,
            name,
            queue,
            retention,
            entries,
            follower,
            stores: VecDeque::new(),
            connection: None,
            batch: Vec::new(),
            reported_drops: 0,
            replaced: None,
            clock: StateClock::default(),
            last_poll: None,
            last_retain: Instant::now(),
            has_new_events: true,
            has_excess: false,
            retry_at: Instant::now(),
            retry_delay: MIN_RETRY_DELAY,
        }
    }

    fn run(mut self) {
        // Opens the database now, so that an error is visible before the first event.
        self.write_all();
        loop {
            self.follow();
            let (jobs, closing) = self.wait_for_work();
            let is_asked = jobs.iter().any(|job| matches!(job, Job::Flush(_)));
            if closing || is_asked || Instant::now() >= self.retry_at {
                self.write_all();
            }
            for job in jobs {
                self.work(job);
            }
            self.store_all();
            if closing {
                self.give_up_sessions();
                self.count_lost();
                return;
            }
            self.retain();
        }
    }

    /// Waits for something to do. Returns the waiting jobs, and whether the database is closing.
    fn wait_for_work(&mut self) -> (Vec<Job>, bool) {
        let is_urgent = |state: &QueueState| !state.jobs.is_empty() || state.closing;
        if self.connection.is_none() {
            // Events stay in the queue until the next try.
            let delay = self.retry_at.saturating_duration_since(Instant::now());
            self.queue.wait(delay, is_urgent);
        } else {
            let limit = match self.has_excess {
                true => Duration::ZERO,
                false => POLL_INTERVAL,
            };
            self.queue
                .wait(limit, |state| !state.events.is_empty() || is_urgent(state));
            self.queue.wait(BATCH_TIME, |state| {
                !(1..MAX_BATCH_EVENTS).contains(&state.events.len()) || is_urgent(state)
            });
        }
        let mut state = self.queue.lock();
        (std::mem::take(&mut state.jobs), state.closing)
    }

    fn work(&mut self, job: Job) {
        match job {
            // An error means that the caller does not wait any more.
            Job::Flush(answer) => _ = answer.send(()),
            Job::Change(changes, answer) => {
                let changed = self.change(&changes);
                if let Some(answer) = answer {
                    // An error means that the caller does not wait any more.
                    let _ = answer.send(changed);
                }
            }
            Job::ReadFailed(error) => self.on_error(&error),
            Job::Ask(ask) => {
                if !self.is_away() {
                    // Handled by `on_error`.
                    let _ = self.attempt(ask);
                }
            }
            Job::Store(_, _) if self.stores.len() >= MAX_WAITING_STORES => {
                tracing::warn!("too many changes wait for the database of the gateways");
            }
            Job::Store(store, stored) => self.stores.push_back((store, Some(stored))),
        }
    }

    /// True until the next try after a failure.
    fn is_away(&self) -> bool {
        self.connection.is_none() && Instant::now() < self.retry_at
    }

    /// Makes the changes that wait, in their order. One stays until it is made; nobody waits for it while the database is
    /// away.
    fn store_all(&mut self) {
        while !self.is_away()
            && let Some((mut store, stored)) = self.stores.pop_front()
        {
            let made = self.attempt(|connection| {
                connection.in_transaction(true, |connection| store(connection).map(|()| true))
            });
            // One that is rejected would be rejected again, and hold up all others.
            if made.is_err_and(|error| error.fault != StoreFault::Rejected) {
                self.stores.push_front((store, stored));
            }
        }
        for (_, stored) in &mut self.stores {
            stored.take();
        }
    }

    /// Lets the other gateways serve the sessions of this one.
    fn give_up_sessions(&mut self) {
        if let (Some(follower), Some(connection)) = (&self.follower, &mut self.connection)
            && let Err(error) = follower.close(connection)
        {
            let reason = error.reason;
            tracing::warn!(reason, "the sessions of this gateway are not given up");
        }
    }

    /// Writes the waiting events in batches, until the database fails. Events that come meanwhile wait for the
    /// next round: written at once, each would be a transaction of its own.
    fn write_all(&mut self) {
        let mut is_full = true;
        while is_full {
            self.fill();
            let batch = std::mem::take(&mut self.batch);
            if batch.is_empty() && self.connection.is_some() {
                return;
            }
            is_full = batch.len() >= MAX_BATCH_EVENTS;
            match self.attempt(|connection| append(connection, &batch)) {
                Ok(()) => {
                    self.has_new_events |= !batch.is_empty();
                    let mut state = self.queue.lock();
                    state.health.written += batch.len() as u64;
                    state.health.degraded = None;
                }
                Err(error) if error.fault == StoreFault::Rejected => {
                    let mut state = self.queue.lock();
                    state.health.dropped += batch.len() as u64;
                    // Not reported by an event, which might be rejected again and again.
                    self.reported_drops = state.health.dropped;
                }
                Err(_) => {
                    self.batch = batch;
                    return;
                }
            }
        }
    }

    /// Takes events from the queue. If some were lost, the first one reports that.
    fn fill(&mut self) {
        let room = MAX_BATCH_EVENTS.saturating_sub(self.batch.len());
        let (events, dropped) = self.queue.take(room);
        let is_reported = |record: &Record| record.event_type == kind::EVENTS_REPLACED;
        if let Some(reason) = self.replaced.take()
            && !self.batch.iter().any(is_reported)
        {
            let facts = json!({"reason": reason});
            let event = Event::new(kind::EVENTS_REPLACED, EventStatus::Failure, facts);
            self.batch.insert(0, event.into());
        }
        if dropped > self.reported_drops && self.batch.is_empty() {
            let facts = json!({"count": dropped - self.reported_drops});
            let event = Event::new(kind::EVENTS_DROPPED, EventStatus::Failure, facts);
            self.batch.push(event.into());
            self.reported_drops = dropped;
        }
        self.batch.extend(events.into_iter().map(Record::from));
    }

    fn change(&mut self, changes: &[EntryChange]) -> Result<bool, StoreError> {
        if self.is_away() {
            let reason = self.queue.lock().health.degraded.clone();
            return Err(StoreError::unavailable(reason.unwrap_or_default()));
        }
        // What others have changed comes first: a conflict with it is seen at once.
        self.poll()?;
        if changes.is_empty() {
            return Ok(true);
        }
        let applied = self.attempt(|connection| state::apply(connection, changes))?;
        self.poll()?;
        Ok(applied)
    }

    /// Reads what other processes have changed in the state, and follows other gateways, in intervals.
    fn follow(&mut self) {
        let is_due = self
            .last_poll
            .is_none_or(|last| last.elapsed() >= POLL_INTERVAL);
        if self.connection.is_some() && is_due {
            // Handled by `on_error`.
            let _ = self.poll().and_then(|()| self.follow_others());
        }
    }

    fn follow_others(&mut self) -> Result<(), StoreError> {
        let Some(mut follower) = self.follower.take() else {
            return Ok(());
        };
        let followed = self.attempt(|connection| follower.follow(connection));
        if followed.is_err() {
            follower.disconnect();
        }
        self.follower = Some(follower);
        followed
    }

    fn poll(&mut self) -> Result<(), StoreError> {
        let known = Arc::clone(&self.entries.borrow());
        let was_read = self.last_poll.is_some();
        let before = self.clock.clone();
        let read = self.attempt(|connection| {
            let clock = state::clock(connection)?;
            if was_read && clock == before {
                return Ok(None);
            }
            state::follow(connection, &known, &before, clock).map(Some)
        });
        // Changes that came after the clock was read are read again the next time.
        let changed = read?;
        self.last_poll = Some(Instant::now());
        if let Some((entries, clock)) = changed {
            self.clock = clock;
            self.entries.send_replace(Arc::new(entries));
        }
        Ok(())
    }

    fn retain(&mut self) {
        let interval = match self.has_new_events {
            true => RETAIN_INTERVAL,
            false => IDLE_RETAIN_INTERVAL,
        };
        let is_due = self.has_excess || self.last_retain.elapsed() >= interval;
        if self.connection.is_none() || !is_due {
            return;
        }
        let retention = self.retention.clone();
        let now = Timestamp::now();
        let retained = self.attempt(|connection| retain(connection, &retention, now));
        // The rest is removed in the next round, after the events that came meanwhile.
        self.has_excess = retained.unwrap_or(false);
        self.has_new_events = false;
        self.last_retain = Instant::now();
    }

    /// Calls `work` with the connection, which is opened if it is closed. One that fails is closed, and opened again
    /// after a delay.
    fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = match &mut self.connection {
            Some(connection) => connection.verify().and_then(|()| work(connection)),
            None => self
                .location
                .open(&self.name)
                .and_then(|connection| work(self.connection.insert(connection))),
        };
        match &result {
            Ok(_) => self.retry_delay = MIN_RETRY_DELAY,
            Err(error) => self.on_error(error),
        }
        result
    }

    fn on_error(&mut self, error: &StoreError) {
        let mut reason = error.reason.clone();
        if error.fault == StoreFault::Rejected {
            tracing::error!(reason, "the database has rejected a value");
            return;
        }
        self.connection = None;
        self.last_poll = None;
        let longest = match &mut self.follower {
            Some(follower) => {
                follower.disconnect();
                LOOK_INTERVAL
            }
            None => MAX_RETRY_DELAY,
        };
        if error.fault == StoreFault::Replaced {
            tracing::warn!(reason, "the store of the event log is created again");
            self.retry_at = Instant::now() + MIN_RETRY_DELAY;
            self.note_replacement(reason);
            return;
        }
        self.retry_at = Instant::now() + self.retry_delay;
        if error.fault == StoreFault::Corrupt {
            match self.location.quarantine() {
                Ok(()) => {
                    reason += "; the damaged file was renamed";
                    self.note_replacement(reason.clone());
                }
                Err(error) => reason += &format!("; {}", error.reason),
            }
        }
        self.retry_delay = (self.retry_delay * 2).min(longest);
        let mut state = self.queue.lock();
        if state.health.degraded.as_ref() != Some(&reason) {
            tracing::warn!(
                reason,
                "the event log cannot be written, and the state cannot be stored; what was read last holds"
            );
            state.health.degraded = Some(reason);
        }
    }

    fn note_replacement(&mut self, reason: String) {
        let noticed = format!("{}: {reason}", Timestamp::now().strftime("%FT%TZ"));
        self.queue.lock().health.replaced = Some(noticed);
        self.replaced = Some(reason);
    }

    fn count_lost(&mut self) {
        let mut state = self.queue.lock();
        let lost = (state.events.len() + self.batch.len()) as u64;
        state.events.clear();
        state.health.dropped += lost;
        if lost > 0 {
            tracing::warn!(lost, "events were lost during the shutdown");
        }
    }
}
