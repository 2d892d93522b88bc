//! The thread that writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use upstream::time::Timestamp;

use super::event::{Event, Status, kind};
use super::queue::{BATCH, PendingQuery, Queue, QueueState};
use super::record::Record;
use super::store::{Failure, Fault, OpenStore, Retention, Store};
use super::trace::TraceId;

/// How long an event waits for others.
const GATHER_TIME: Duration = Duration::from_millis(50);

/// How often old events are looked for: when there are new ones, and otherwise.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);
const IDLE_TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// Pauses before the next try with a store that failed: they double from one to the other.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(100);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The writer.
pub(super) struct Writer<L> {
    queue: Arc<Queue>,
    location: L,
    retention: Retention,
    store: Option<Box<dyn Store>>,
    /// Taken from the queue and not yet written.
    batch: Vec<Record>,
    /// Losses that the log itself tells of when it can.
    told: u64,
    tidied: Instant,
    written_since: bool,
    /// True where the last look found more old events than it removed.
    untidy: bool,
    /// When to try again after a failure, and the pause after the next one.
    retry: Instant,
    pause: Duration,
}

impl<L: OpenStore> Writer<L> {
    pub(super) fn new(queue: Arc<Queue>, location: L, retention: Retention) -> Self {
        Self {
            queue,
            location,
            retention,
            store: None,
            batch: Vec::new(),
            told: 0,
            tidied: Instant::now(),
            written_since: true,
            untidy: false,
            retry: Instant::now(),
            pause: MIN_RETRY_PAUSE,
        }
    }

    pub(super) fn run(mut self) {
        // Opened at once: a place that cannot be used shows before the first event.
        self.attempt(|_| Ok(()));
        loop {
            let (asks, closing) = self.gather();
            if closing || !asks.is_empty() || Instant::now() >= self.retry {
                self.write_all();
            }
            for ask in asks {
                self.answer(ask);
            }
            if closing {
                self.count_lost();
                return;
            }
            self.tidy();
        }
    }

    /// Waits for something to do.
    fn gather(&mut self) -> (Vec<PendingQuery>, bool) {
        let pause = self.retry.saturating_duration_since(Instant::now());
        if self.store.is_none() {
            // Events gather in the queue until the next try.
            let urgent = |state: &QueueState| !state.queries.is_empty() || state.closing;
            self.queue.wait(pause, urgent);
        } else {
            let limit = match (self.untidy, self.written_since) {
                (true, _) => Duration::ZERO,
                (_, true) => TIDY_INTERVAL,
                (_, false) => IDLE_TIDY_INTERVAL,
            };
            self.queue.wait(limit, |state| {
                !state.events.is_empty() || !state.queries.is_empty() || state.closing
            });
            self.queue.wait(GATHER_TIME, |state| {
                state.events.is_empty()
                    || state.events.len() >= BATCH
                    || !state.queries.is_empty()
                    || state.closing
            });
        }
        let mut state = self.queue.lock();
        (std::mem::take(&mut state.queries), state.closing)
    }

    /// Writes what waits, batch by batch, until there is no more or the store fails.
    fn write_all(&mut self) {
        loop {
            self.fill();
            let batch = std::mem::take(&mut self.batch);
            let empty = batch.is_empty() && self.store.is_some();
            if empty {
                return;
            }
            match self.attempt(|store| store.append(&batch)) {
                Some(Ok(())) => {
                    self.written_since |= !batch.is_empty();
                    let mut state = self.queue.lock();
                    state.health.written += batch.len() as u64;
                    state.health.degraded = None;
                }
                Some(Err(Fault::Rejected)) => {
                    let mut state = self.queue.lock();
                    state.health.dropped += batch.len() as u64;
                    // The event that would tell of it might be refused as well, without end.
                    self.told = state.health.dropped;
                }
                Some(Err(_)) | None => {
                    self.batch = batch;
                    return;
                }
            }
        }
    }

    /// Takes events from the queue; where some were lost, the first one says so.
    fn fill(&mut self) {
        let mut state = self.queue.lock();
        let dropped = state.health.dropped;
        let take = BATCH
            .saturating_sub(self.batch.len())
            .min(state.events.len());
        let events: Vec<Event> = state.events.drain(..take).collect();
        drop(state);
        if dropped > self.told && self.batch.is_empty() {
            let lost = [("count".to_owned(), json!(dropped - self.told))];
            let lost = lost.into_iter().collect();
            let trace = TraceId::random();
            let event = Event::new(trace, kind::EVENTS_DROPPED, Status::Failure, lost);
            self.batch.push(event.into());
            self.told = dropped;
        }
        self.batch.extend(events.into_iter().map(Record::from));
    }

    fn answer(&mut self, ask: PendingQuery) {
        if ask.answer.is_closed() {
            return;
        }
        let mut found = None;
        self.attempt(|store| {
            let result = store.find(&ask.query);
            let done = result.as_ref().map(drop).map_err(Failure::clone);
            found = Some(result);
            done
        });
        let found = found.unwrap_or_else(|| {
            let why = self.queue.lock().health.degraded.clone();
            Err(Failure::unavailable(why.unwrap_or_default()))
        });
        // The one who asked may have gone meanwhile.
        let _ = ask.answer.send(found);
    }

    fn tidy(&mut self) {
        let pause = if self.written_since {
            TIDY_INTERVAL
        } else {
            IDLE_TIDY_INTERVAL
        };
        if self.store.is_none() || (!self.untidy && self.tidied.elapsed() < pause) {
            return;
        }
        let (retention, now) = (self.retention.clone(), Timestamp::now());
        let mut more = false;
        self.attempt(|store| {
            more = store.retain(&retention, now)?;
            Ok(())
        });
        // What is left is next, after the events that came meanwhile.
        self.untidy = more;
        self.written_since = false;
        self.tidied = Instant::now();
    }

    /// Does something with the store, which is opened where it is not; `None` where it cannot be. A
    /// store that fails is closed, and tried again after a pause.
    fn attempt(
        &mut self,
        work: impl FnOnce(&mut dyn Store) -> Result<(), Failure>,
    ) -> Option<Result<(), Fault>> {
        let done = match &mut self.store {
            Some(store) => work(&mut **store),
            None => match self.location.open() {
                Ok(store) => work(&mut **self.store.insert(store)),
                Err(mut failure) => {
                    // Nothing to refuse yet.
                    if failure.fault == Fault::Rejected {
                        failure.fault = Fault::Unavailable;
                    }
                    self.failed(failure);
                    return None;
                }
            },
        };
        Some(match done {
            Ok(()) => {
                self.pause = MIN_RETRY_PAUSE;
                Ok(())
            }
            Err(failure) => Err(self.failed(failure)),
        })
    }

    fn failed(&mut self, failure: Failure) -> Fault {
        let Failure { fault, mut reason } = failure;
        if fault == Fault::Rejected {
            tracing::error!(reason, "events were refused by their store");
            return fault;
        }
        self.store = None;
        self.retry = Instant::now() + self.pause;
        if fault == Fault::Corrupt {
            match self.location.put_aside() {
                Ok(()) => reason = format!("{reason}; the damaged file was put aside"),
                Err(failure) => reason = format!("{reason}; {}", failure.reason),
            }
        }
        self.pause = (self.pause * 2).min(MAX_RETRY_PAUSE);
        let mut state = self.queue.lock();
        if state.health.degraded.as_ref() != Some(&reason) {
            tracing::warn!(reason, "events cannot be written");
            state.health.degraded = Some(reason);
        }
        fault
    }

    fn count_lost(&mut self) {
        let mut state = self.queue.lock();
        let lost = (state.events.len() + self.batch.len()) as u64;
        state.events.clear();
        state.health.dropped += lost;
        if lost > 0 {
            tracing::warn!(lost, "events were not written");
        }
    }
}
