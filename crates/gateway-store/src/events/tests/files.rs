//! Tests of the log with damaged, locked and missing files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use rusqlite::Connection;

use super::*;

fn log(scratch: &Scratch) -> EventLog {
    EventLog::start(StoreLocation::File(scratch.file()), PLENTY).unwrap()
}

/// The numbers of all events in the file, read through another connection.
fn written(file: &std::path::Path) -> Vec<usize> {
    let mut store = StoreLocation::File(file.to_owned()).open().unwrap();
    let query = Query::default().with_type("test.happened");
    found(&mut *store, &query.with_limit(MAX_QUERY_LIMIT))
}

#[test]
fn restart_appends_to_the_file() {
    let scratch = Scratch::new();
    for n in 0..3 {
        let log = log(&scratch);
        log.record(event(n));
        log.close();
    }
    assert_eq!(written(&scratch.file()), [0, 1, 2]);
    let mode = fs::metadata(scratch.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn trace_is_found_until_it_is_removed() {
    let scratch = Scratch::new();
    let open = || StoreLocation::File(scratch.file()).open().unwrap();
    let (mut store, mut other) = (open(), open());
    let records: Vec<Record> = (0..5_000).map(|n| event(n).into()).collect();
    let mut rest = &records[..];
    for size in [1, 1, 700, 300, 1_000, 1_001, 7, 990].iter().cycle() {
        let (batch, after) = rest.split_at(rest.len().min(*size));
        std::mem::swap(&mut store, &mut other);
        store.append(batch).unwrap();
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let mut traced =
        |record: &Record| found(&mut *store, &Query::default().with_trace(record.trace_id));
    for record in records.iter().step_by(41) {
        assert_eq!(traced(record), [number(record)]);
    }
    let fewer = Retention {
        rows: 1_500,
        ..PLENTY
    };
    // Opened now, since a store counts its rows when it is opened.
    let mut third = open();
    while third.retain(&fewer, Timestamp::now()).unwrap() {}
    for record in records.iter().step_by(41) {
        let is_left = number(record) >= 3_500;
        assert_eq!(traced(record), [number(record)][..usize::from(is_left)]);
    }
    let parts = "select count(*) from parts where id <= (select min(id) from events)";
    let parts: i64 = Connection::open(scratch.file())
        .unwrap()
        .query_row(parts, [], |row| row.get(0))
        .unwrap();
    assert_eq!(parts, 1);
}

#[tokio::test]
async fn events_wait_while_another_process_locks_the_file() {
    let scratch = Scratch::new();
    let log = log(&scratch);
    write(&log, 0, 1);
    let other = Connection::open(scratch.file()).unwrap();
    other.execute_batch("begin immediate").unwrap();
    log.record(event(1));
    degraded(&log);
    let found = log.find(Query::default()).await.unwrap();
    assert_eq!(found.iter().map(number).collect::<Vec<_>>(), [0]);
    assert_eq!(log.health().dropped, 0);
    other.execute_batch("rollback").unwrap();
    until("written", || log.health().written == 2);
    assert_eq!(log.health().degraded, None);
}

#[test]
fn damaged_file_is_renamed() {
    for damage in ["all", "header", "inside"] {
        let scratch = Scratch::new();
        let before = log(&scratch);
        (0..500).for_each(|n| before.record(event(n)));
        before.close();
        let mut bytes = fs::read(scratch.file()).unwrap();
        let damaged = match damage {
            "all" => 0..bytes.len(),
            "header" => 0..16,
            // Behind the first page, which has the schema.
            _ => 8_192..bytes.len(),
        };
        bytes[damaged].fill(0x5a);
        fs::write(scratch.file(), &bytes).unwrap();
        let after = log(&scratch);
        write(&after, 1_000, 1);
        after.close();
        assert_eq!(after.health().dropped, 0);
        assert_eq!(written(&scratch.file()), [1_000], "{damage}");
        let aside = fs::read(scratch.0.join("events.db.corrupt")).unwrap();
        assert!(aside == bytes, "{damage}");
    }
}

#[test]
fn removed_file_is_created_again() {
    let scratch = Scratch::new();
    let log = log(&scratch);
    write(&log, 0, 1);
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(scratch.0.join(format!("events.db{suffix}")));
    }
    // And an event about it.
    write(&log, 1, 3);
    assert_eq!(written(&scratch.file()), [1]);
}

/// Seen without a new event, also if only the write-ahead log is gone.
#[test]
fn removed_file_is_noticed_within_five_seconds() {
    for gone in [&["", "-wal", "-shm"][..], &[""], &["-wal"]] {
        let scratch = Scratch::new();
        let log = log(&scratch);
        write(&log, 0, 1);
        let removed = Instant::now();
        for suffix in gone {
            fs::remove_file(scratch.0.join(format!("events.db{suffix}"))).unwrap();
        }
        until("noticed", || log.health().replaced.is_some());
        assert!(removed.elapsed() < Duration::from_secs(5));
        until("the file", || {
            log.health().written == 2 && scratch.file().exists()
        });
        write(&log, 1, 3);
        assert_eq!(log.health().degraded, None);
        let found = written(&scratch.file());
        assert_eq!(found.last(), Some(&1), "{gone:?}: {found:?}");
        assert_eq!(found.len(), 1 + usize::from(gone == ["-wal"]), "{found:?}");
    }
}

/// Limits that a log of 20 events is over.
const FEW: Retention = Retention {
    age: Duration::from_secs(30 * 86_400),
    rows: 15,
    ..PLENTY
};

/// Adds ten events to a file with ten: five of those go, whatever their age is.
fn check_that_only_the_oldest_are_removed(scratch: &Scratch) {
    let log = EventLog::start(StoreLocation::File(scratch.file()), FEW).unwrap();
    (10..20).for_each(|n| log.record(event(n)));
    // Shows that old events were removed.
    until("written", || log.health().written == 10);
    until("15 events", || written(&scratch.file()).len() <= 15);
    assert_eq!(written(&scratch.file()), (5..20).collect::<Vec<_>>());
}

/// The events are 4,000 days old: so is a log after the clock has jumped.
#[test]
fn clock_that_jumps_does_not_erase_the_log() {
    let scratch = Scratch::new();
    let mut store = StoreLocation::File(scratch.file()).open().unwrap();
    let before = |n| {
        let mut record = Record::from(event(n));
        let jump = Duration::from_secs(4_000 * 86_400);
        record.timestamp = upstream::time::before(record.timestamp, jump);
        record
    };
    store
        .append(&(0..10).map(before).collect::<Vec<_>>())
        .unwrap();
    drop(store);
    check_that_only_the_oldest_are_removed(&scratch);
}

/// The newest event was written with the wrong clock: so is a log at the second start with it.
#[test]
fn second_start_with_a_wrong_clock_does_not_erase_the_log() {
    let scratch = Scratch::new();
    let mut store = StoreLocation::File(scratch.file()).open().unwrap();
    let right = upstream::time::before(Timestamp::now(), Duration::from_secs(4_000 * 86_400));
    let mut records: Vec<Record> = (0..10).map(|n| event(n).into()).collect();
    records[..9]
        .iter_mut()
        .for_each(|record| record.timestamp = right);
    store.append(&records).unwrap();
    store.retain(&FEW, right).unwrap();
    drop(store);
    check_that_only_the_oldest_are_removed(&scratch);
}

#[test]
fn file_of_another_application_is_not_changed() {
    let scratch = Scratch::new();
    let other = Connection::open(scratch.file()).unwrap();
    let table = "create table accounts (name text)";
    other.execute_batch(table).unwrap();
    drop(other);
    let before = fs::read(scratch.file()).unwrap();
    let log = log(&scratch);
    log.record(event(0));
    let reason = degraded(&log);
    assert_eq!(reason, "the file is not an event log of this version");
    log.close();
    assert_eq!(fs::read(scratch.file()).unwrap(), before);
}

#[test]
fn unwritable_location_recovers() {
    let scratch = Scratch::new();
    let folder = scratch.0.join("folder");
    fs::write(&folder, "in the way").unwrap();
    let file = folder.join("events.db");
    let log = EventLog::start(StoreLocation::File(file.clone()), PLENTY).unwrap();
    log.record(event(0));
    degraded(&log);
    fs::remove_file(&folder).unwrap();
    until("written", || log.health().written == 1);
    assert_eq!(log.health().degraded, None);
    assert_eq!(written(&file), [0]);
}

/// The child process of the next test, in which files cannot grow beyond 256 KiB.
#[test]
fn full_disk_child() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Some(file) = std::env::var_os("MCP_GATEWAY_TEST_FULL") else {
        return;
    };
    let location = StoreLocation::File(file.into());
    let log = EventLog::start(location.clone(), PLENTY).unwrap();
    let mut recorded = 0;
    until("full", || {
        log.record(event(recorded));
        recorded += 1;
        log.health().degraded.is_some()
    });
    let before = log.health().written;
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard).unwrap();
    until("room again", || {
        let health = log.health();
        health.degraded.is_none() && health.waiting == 0
    });
    log.close();
    let health = log.health();
    assert!(health.written > before);
    let reports = Query::default().with_type(kind::EVENTS_DROPPED);
    let reports = location.open().unwrap().find(&reports).unwrap().len();
    let counted = health.written + health.dropped;
    assert_eq!(counted, (recorded + reports) as u64);
}

#[test]
fn log_recovers_from_a_full_disk() {
    let scratch = Scratch::new();
    // Writes beyond the limit fail as on a full disk, if the signal SIGXFSZ is ignored.
    let script = r#"trap '' XFSZ; ulimit -S -f 512; exec "$0" "$@""#;
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["events::tests::files::full_disk_child", "--exact"])
        .arg("--nocapture")
        .env("MCP_GATEWAY_TEST_FULL", scratch.file())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    let mut store = StoreLocation::File(scratch.file()).open().unwrap();
    assert_eq!(store.find(&Query::default()).unwrap().len(), 100);
}
