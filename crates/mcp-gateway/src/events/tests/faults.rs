//! The log and a store that fails, played.

use std::sync::{Arc, Mutex};

use super::queue::BATCH;
use super::*;

/// A store that does what the test wants, and remembers what it took.
#[derive(Clone, Default)]
struct Played(Arc<Mutex<Play>>);

#[derive(Default)]
struct Play {
    fails: Option<Failure>,
    taken: Vec<Record>,
    opened: usize,
    put_aside: usize,
}

impl Played {
    fn fail(&self, fault: Option<Fault>) {
        self.0.lock().unwrap().fails = fault.map(|fault| Failure {
            fault,
            reason: "played".into(),
        });
    }

    fn check(&self) -> Result<(), Failure> {
        self.0.lock().unwrap().fails.clone().map_or(Ok(()), Err)
    }

    fn log(&self) -> Log {
        Log::start(self.clone(), PLENTY).unwrap()
    }

    fn taken(&self) -> usize {
        self.0.lock().unwrap().taken.len()
    }
}

impl OpenStore for Played {
    fn open(&self) -> Result<Box<dyn Store>, Failure> {
        self.0.lock().unwrap().opened += 1;
        self.check()?;
        Ok(Box::new(self.clone()))
    }

    fn put_aside(&self) -> Result<(), Failure> {
        let mut play = self.0.lock().unwrap();
        play.put_aside += 1;
        play.fails = None;
        Ok(())
    }
}

impl Store for Played {
    fn append(&mut self, records: &[Record]) -> Result<(), Failure> {
        assert!(records.len() <= BATCH + 1, "{}", records.len());
        self.check()?;
        self.0.lock().unwrap().taken.extend_from_slice(records);
        Ok(())
    }

    fn find(&mut self, query: &Query) -> Result<Vec<Record>, Failure> {
        self.check()?;
        let taken = &self.0.lock().unwrap().taken;
        let newest = taken.len().saturating_sub(query.limit());
        Ok(taken[newest..].to_vec())
    }

    fn retain(&mut self, _: &Retention, _: Timestamp) -> Result<bool, Failure> {
        self.check()?;
        Ok(false)
    }
}

#[test]
fn a_store_that_is_away_costs_nothing_but_what_does_not_fit() {
    let store = Played::default();
    store.fail(Some(Fault::Unavailable));
    let log = store.log();
    until("degraded", || log.health().degraded.is_some());
    let slowest = (0..12_000)
        .map(|n| {
            let (event, start) = (event(n), Instant::now());
            log.record(event);
            start.elapsed()
        })
        .max();
    // Not the promise (1 ms), but far from any wait of the store; others use this machine too.
    assert!(slowest < Some(Duration::from_millis(100)), "{slowest:?}");
    let health = log.health();
    assert_eq!(health.degraded.as_deref(), Some("played"));
    // What the writer took before it failed has made room for others.
    assert!((1_000..=2_000).contains(&health.dropped), "{health:?}");
    assert_eq!(health.written, 0);
    store.fail(None);
    until("recovery", || {
        log.health().degraded.is_none() && log.health().waiting == 0
    });
    let dropped = log.health().dropped as usize;
    until("the rest", || store.taken() == 12_000 - dropped + 1);
    let play = store.0.lock().unwrap();
    let told: Vec<_> = play
        .taken
        .iter()
        .filter(|record| record.event_type == kind::EVENTS_DROPPED)
        .collect();
    assert_eq!(told.len(), 1);
    let told: Value = serde_json::from_str(&told[0].metadata).unwrap();
    assert_eq!(told["count"], dropped);
}

#[tokio::test]
async fn what_was_recorded_is_found_at_once() {
    let store = Played::default();
    let log = store.log();
    for n in 0..600 {
        log.record(event(n));
        if n % 100 == 0 {
            let found = log.find(Query::default()).await.unwrap();
            assert_eq!(number(found.last().unwrap()), n);
        }
    }
    log.close();
    assert_eq!(store.taken(), 600);
    assert_eq!(log.health().written, 600);
    log.record(event(0));
    assert_eq!(log.health().dropped, 1);
    assert!(log.find(Query::default()).await.is_err());
}

#[test]
fn a_lone_event_does_not_wait_for_others() {
    let store = Played::default();
    let log = store.log();
    let start = Instant::now();
    log.record(event(0));
    until("written", || log.health().written == 1);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn records_that_are_refused_do_not_stop_the_others() {
    let store = Played::default();
    let log = store.log();
    log.record(event(0));
    until("written", || log.health().written == 1);
    store.fail(Some(Fault::Rejected));
    log.record(event(0));
    until("refused", || log.health().dropped == 1);
    assert_eq!(log.health().degraded, None);
    store.fail(None);
    log.record(event(1));
    until("written", || log.health().written == 2);
    assert_eq!(store.0.lock().unwrap().opened, 1);
}

#[test]
fn a_damaged_store_is_put_aside_and_nothing_else_is_lost() {
    let store = Played::default();
    let log = store.log();
    log.record(event(0));
    until("written", || log.health().written == 1);
    store.fail(Some(Fault::Corrupt));
    log.record(event(1));
    until("written anew", || log.health().written == 2);
    assert_eq!(log.health().dropped, 0);
    assert_eq!(store.0.lock().unwrap().put_aside, 1);
}

#[tokio::test]
async fn whoever_asks_is_told_why_there_is_no_answer() {
    let store = Played::default();
    store.fail(Some(Fault::Unavailable));
    let log = store.log();
    let failure = log.find(Query::default()).await.unwrap_err();
    assert_eq!(failure.fault, Fault::Unavailable);
    log.record(event(0));
    log.close();
    assert_eq!(log.health().dropped, 1);
}
