//! Tests of a database that fails, with real files.

use super::*;

/// A database in a file that cannot be created, until the returned path is removed.
fn blocked(scratch: &Scratch) -> (Database, PathBuf) {
    let folder = scratch.0.join("folder");
    std::fs::write(&folder, "in the way").unwrap();
    let location = StoreLocation::File(folder.join("events.db"));
    (
        Database::start(location, Retention::default(), None).unwrap(),
        folder,
    )
}

#[test]
fn unavailable_store_drops_only_what_exceeds_the_queue() {
    let scratch = Scratch::new();
    let (database, in_the_way) = blocked(&scratch);
    degraded(&database);
    // One that waited for the store would wait without end: it is there only afterwards.
    (0..12_000).for_each(|n| database.log.record(event(n)));
    let health = database.log.health();
    // The first batch of the writer has made room for more events in the queue.
    assert!((1_000..=2_000).contains(&health.dropped), "{health:?}");
    assert_eq!(health.written, 0);
    std::fs::remove_file(&in_the_way).unwrap();
    until("recovery", || {
        let health = database.log.health();
        health.degraded.is_none() && health.waiting == 0
    });
    let dropped = database.log.health().dropped;
    let mut reader = EventReader::open(&StoreLocation::File(in_the_way.join("events.db"))).unwrap();
    until("the rest", || {
        let reports = Query::default().with_type(kind::EVENTS_DROPPED);
        let reports = reader.find(&reports).unwrap();
        let counts = reports.iter().map(|report| {
            let report: Value = serde_json::from_str(&report.metadata).unwrap();
            report["count"].as_u64().unwrap()
        });
        // Usually one report, and two if the writer tried again while events were dropped.
        let written = 12_000 - dropped + reports.len() as u64;
        counts.sum::<u64>() == dropped && database.log.health().written == written
    });
}

#[tokio::test]
async fn recorded_event_is_found_immediately() {
    let database = Database::start(StoreLocation::Memory, Retention::default(), None).unwrap();
    let log = &database.log;
    for n in 0..600 {
        log.record(event(n));
        if n % 100 == 0 {
            let found = log.find(Query::default()).await.unwrap();
            assert_eq!(number(found.last().unwrap()), n);
        }
    }
    database.close();
    assert_eq!(database.log.health().written, 600);
    log.record(event(0));
    assert_eq!(database.log.health().dropped, 1);
    assert!(log.find(Query::default()).await.is_err());
}

/// Each write is a transaction, which costs more than many events in it.
#[test]
fn steady_events_are_written_many_at_a_time() {
    let scratch = Scratch::new();
    let database = start(&scratch);
    write(&database, 0, 1);
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    let count = "create table transactions (number); create trigger count after update on mcp_usage
        begin insert into transactions values (1); end;";
    other.execute_batch(count).unwrap();
    let start = Instant::now();
    for number in 0..300 {
        database.log.record(event(number));
        std::thread::sleep(Duration::from_millis(1));
    }
    until("written", || database.log.health().written == 301);
    // An event waits 50 ms for others; it counts in both transactions at the ends.
    let rounds = start.elapsed().as_millis() as i64 / 50 + 2;
    let transactions = "select count(*) from transactions";
    let transactions: i64 = other.query_row(transactions, [], |row| row.get(0)).unwrap();
    assert!(
        (1..=rounds).contains(&transactions),
        "{transactions} transactions, not {rounds}"
    );
}

#[test]
fn rejected_records_do_not_stop_others() {
    let scratch = Scratch::new();
    let database = start(&scratch);
    write(&database, 0, 1);
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    let refuse =
        "create trigger refuse before insert on mcp_events begin select raise(abort, 'no'); end";
    other.execute_batch(refuse).unwrap();
    database.log.record(event(0));
    until("refused", || database.log.health().dropped == 1);
    assert_eq!(database.log.health().degraded, None);
    other.execute_batch("drop trigger refuse").unwrap();
    write(&database, 1, 2);
}

#[tokio::test]
async fn query_of_a_failing_store_returns_its_error() {
    let scratch = Scratch::new();
    let (database, _) = blocked(&scratch);
    let failure = database.log.find(Query::default()).await.unwrap_err();
    assert_eq!(failure.fault, StoreFault::Unavailable);
    database.log.record(event(0));
    database.close();
    assert_eq!(database.log.health().dropped, 1);
}

/// Neither locks of readers nor long queries hold up what is written.
#[tokio::test]
async fn reader_does_not_delay_the_writer() {
    let scratch = Scratch::new();
    let database = start(&scratch);
    write(&database, 0, 1);
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    other.execute_batch("begin").unwrap();
    let count = "select count(*) from mcp_events";
    let before: i64 = other.query_row(count, [], |row| row.get(0)).unwrap();
    write(&database, 1, 2);
    assert_eq!(before, 1);
    assert_eq!(database.log.find(Query::default()).await.unwrap().len(), 2);
}
