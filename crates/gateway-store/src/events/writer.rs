//! The thread that writes events to the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use upstream::time::Timestamp;

use super::clock::RetentionClock;
use super::event::{Event, EventStatus, kind};
use super::queue::{MAX_BATCH_EVENTS, PendingQuery, Queue, QueueState};
use super::record::Record;
use super::store::{OpenStore, Query, Retention, Store, StoreError, StoreFault};

/// An event waits for this time for others, so that one transaction writes many.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// Interval for removing old events: while there are new ones, and otherwise.
const RETAIN_INTERVAL: Duration = Duration::from_secs(1);
const IDLE_RETAIN_INTERVAL: Duration = Duration::from_secs(60);

/// Interval for checking that the store is in its place.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Limits of the backoff after a failure of the store; the delay doubles each time.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// After this time without a replacement of the store the next one is followed at once again.
const REPLACEMENT_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct Writer<L> {
    queue: Arc<Queue>,
    location: L,
    retention: Retention,
    store: Option<Box<dyn Store>>,
    /// Events that were taken from the queue and are not yet written.
    batch: Vec<Record>,
    /// Number of dropped events that are already reported by an event.
    reported_drops: u64,
    /// The reason why the store was replaced, until an event reports it.
    replaced: Option<String>,
    /// The time of the last replacement, and the delay after the next one.
    last_replaced: Option<Instant>,
    replacement_delay: Duration,
    last_check: Instant,
    /// Started when the store is opened for the first time.
    clock: Option<RetentionClock>,
    last_retain: Instant,
    /// True if events were written since then.
    has_new_events: bool,
    /// True if there may be more old events to remove.
    has_excess: bool,
    /// The time of the next try after a failure, and the delay after the next failure.
    retry_at: Instant,
    retry_delay: Duration,
}

impl<L: OpenStore> Writer<L> {
    pub(super) fn new(queue: Arc<Queue>, location: L, retention: Retention) -> Self {
        Self {
            queue,
            location,
            retention,
            store: None,
            batch: Vec::new(),
            reported_drops: 0,
            replaced: None,
            last_replaced: None,
            replacement_delay: Duration::ZERO,
            last_check: Instant::now(),
            clock: None,
            last_retain: Instant::now(),
            has_new_events: true,
            has_excess: false,
            retry_at: Instant::now(),
            retry_delay: MIN_RETRY_DELAY,
        }
    }

    pub(super) fn run(mut self) {
        // Opens the store now, so that an error is visible before the first event.
        let _ = self.attempt(|_| Ok(()));
        loop {
            let (queries, closing) = self.wait_for_work();
            self.queue.add_counted(closing || !queries.is_empty());
            if closing || !queries.is_empty() || Instant::now() >= self.retry_at {
                self.write_all();
            }
            for query in queries {
                self.answer(query);
            }
            if closing {
                self.count_lost();
                return;
            }
            self.check();
            self.retain();
        }
    }

    /// Waits for something to do. Returns the waiting queries, and whether the log is closing.
    fn wait_for_work(&mut self) -> (Vec<PendingQuery>, bool) {
        let is_urgent = |state: &QueueState| !state.queries.is_empty() || state.closing;
        if self.store.is_none() {
            // Events stay in the queue until the next try.
            let delay = self.retry_at.saturating_duration_since(Instant::now());
            self.queue.wait(delay, is_urgent);
        } else {
            let limit = if self.has_excess {
                Duration::ZERO
            } else {
                self.retain_interval().min(CHECK_INTERVAL)
            };
            self.queue
                .wait(limit, |state| !state.events.is_empty() || is_urgent(state));
            self.queue.wait(BATCH_TIME, |state| {
                !(1..MAX_BATCH_EVENTS).contains(&state.events.len()) || is_urgent(state)
            });
        }
        let mut state = self.queue.lock();
        (std::mem::take(&mut state.queries), state.closing)
    }

    /// Writes the waiting events in batches, until the store fails. Events that come meanwhile wait for the
    /// next round: written at once, each would be a transaction of its own.
    fn write_all(&mut self) {
        let mut is_full = true;
        while is_full {
            self.fill();
            let batch = std::mem::take(&mut self.batch);
            if batch.is_empty() && self.store.is_some() {
                return;
            }
            is_full = batch.len() >= MAX_BATCH_EVENTS;
            match self.attempt(|store| store.append(&batch)) {
                Ok(()) => {
                    self.has_new_events |= !batch.is_empty();
                    let mut state = self.queue.lock();
                    state.health.written += batch.len() as u64;
                    state.health.degraded = None;
                }
                Err(error) if error.fault == StoreFault::Rejected => {
                    let mut state = self.queue.lock();
                    state.health.dropped += batch.len() as u64;
                    // Not reported by an event, which the store might reject again and again.
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
        let mut state = self.queue.lock();
        let dropped = state.health.dropped;
        let room = MAX_BATCH_EVENTS.saturating_sub(self.batch.len());
        let take = room.min(state.events.len());
        let events: Vec<Event> = state.events.drain(..take).collect();
        drop(state);
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

    fn answer(&mut self, pending: PendingQuery) {
        if pending.answer.is_closed() {
            return;
        }
        let mut found = self.attempt(|store| store.find(&pending.query));
        if matches!(&found, Err(error) if error.fault == StoreFault::Replaced) {
            found = self.attempt(|store| store.find(&pending.query));
        }
        // An error means that the caller does not wait any more.
        let _ = pending.answer.send(found);
    }

    /// Checks the store also while there is nothing to write.
    fn check(&mut self) {
        if self.store.is_some() && self.last_check.elapsed() >= CHECK_INTERVAL {
            self.last_check = Instant::now();
            // Handled by `on_error`.
            let _ = self.attempt(|store| store.verify());
        }
    }

    fn retain(&mut self) {
        let is_due = self.has_excess || self.last_retain.elapsed() >= self.retain_interval();
        if self.store.is_none() || !is_due {
            return;
        }
        let (retention, system) = (self.retention.clone(), Timestamp::now());
        let clock = self.clock.as_mut();
        let now = clock.map_or(system, |clock| clock.read(system, Instant::now()));
        let retained = self.attempt(|store| store.retain(&retention, now));
        // The rest is removed in the next round, after the events that came meanwhile.
        self.has_excess = retained.unwrap_or(false);
        self.has_new_events = false;
        self.last_retain = Instant::now();
    }

    fn retain_interval(&self) -> Duration {
        match self.has_new_events {
            true => RETAIN_INTERVAL,
            false => IDLE_RETAIN_INTERVAL,
        }
    }

    /// Calls `work` with the store, which is opened if it is closed. A store that fails is closed, and
    /// opened again after a delay.
    fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = match &mut self.store {
            Some(store) => work(&mut **store),
            None => match self.location.open() {
                Ok(store) => {
                    let store = &mut **self.store.insert(store);
                    if self.clock.is_none() {
                        self.clock = Some(start_clock(store));
                    }
                    work(store)
                }
                // No records were sent that could be rejected.
                Err(error) if error.fault == StoreFault::Rejected => {
                    Err(StoreError::unavailable(error.reason))
                }
                Err(error) => Err(error),
            },
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
            tracing::error!(reason, "the store of the event log rejected events");
            return;
        }
        self.store = None;
        if error.fault == StoreFault::Replaced {
            tracing::warn!(reason, "the store of the event log is created again");
            self.retry_at = Instant::now() + self.next_replacement_delay();
            let noticed = format!("{}: {reason}", Timestamp::now().strftime("%FT%TZ"));
            self.queue.lock().health.replaced = Some(noticed);
            self.replaced = Some(reason);
            return;
        }
        self.retry_at = Instant::now() + self.retry_delay;
        if error.fault == StoreFault::Corrupt {
            reason += &match self.location.quarantine() {
                Ok(()) => "; the damaged file was renamed".to_owned(),
                Err(error) => format!("; {}", error.reason),
            };
        }
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
        let mut state = self.queue.lock();
        if state.health.degraded.as_ref() != Some(&reason) {
            tracing::warn!(reason, "the event log cannot be written");
            state.health.degraded = Some(reason);
        }
    }

    /// Returns no delay for the first replacement, and longer ones while the store keeps being replaced.
    fn next_replacement_delay(&mut self) -> Duration {
        let last = self.last_replaced.replace(Instant::now());
        if last.is_none_or(|last| last.elapsed() > REPLACEMENT_INTERVAL) {
            self.replacement_delay = MIN_RETRY_DELAY;
            return Duration::ZERO;
        }
        let delay = self.replacement_delay;
        self.replacement_delay = (delay * 2).min(MAX_RETRY_DELAY);
        delay
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

/// Starts the clock of the retention.
fn start_clock(store: &mut dyn Store) -> RetentionClock {
    let newest = Query {
        limit: 1,
        ..Query::default()
    };
    let found = store.find(&newest).unwrap_or_default();
    let newest = found.into_iter().next().map(|record| record.timestamp);
    let stored = store.clock().ok().flatten();
    RetentionClock::new(Timestamp::now(), stored, newest, Instant::now())
}
