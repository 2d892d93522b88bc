//! The log and what can happen to its file.

use std::fs;
use std::process::Command;

use rusqlite::Connection;

use super::*;

fn log(scratch: &Scratch) -> Log {
    Log::start(StoreLocation::File(scratch.file()), PLENTY).unwrap()
}

/// The numbers of all events in the file, read by somebody else.
fn written(file: &std::path::Path) -> Vec<usize> {
    let mut store = StoreLocation::File(file.to_owned()).open().unwrap();
    let found = store.find(&Query::default().with_limit(MAX_LIMIT)).unwrap();
    found
        .iter()
        .filter(|record| record.event_type == "test.happened")
        .map(number)
        .collect()
}

#[test]
fn a_restart_goes_on_where_the_last_one_ended() {
    let scratch = Scratch::new();
    for n in 0..3 {
        let log = log(&scratch);
        log.record(event(n));
        log.close();
    }
    assert_eq!(written(&scratch.file()), [0, 1, 2]);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(scratch.file()).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_trace_is_found_wherever_it_is_until_it_is_removed() {
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
    let mut found = |record: &Record| -> Vec<usize> {
        let query = Query::default().with_trace(record.trace_id);
        store.find(&query).unwrap().iter().map(number).collect()
    };
    for record in records.iter().step_by(41) {
        assert_eq!(found(record), [number(record)]);
    }
    let fewer = Retention {
        rows: 1_500,
        ..PLENTY
    };
    // It counts what is there when it is opened.
    let mut tidier = open();
    while tidier.retain(&fewer, Timestamp::now()).unwrap() {}
    for record in records.iter().step_by(41) {
        let is_left = number(record) >= 3_500;
        assert_eq!(found(record), [number(record)][..usize::from(is_left)]);
    }
    let parts = "select count(*) from parts where id <= (select min(id) from events)";
    let parts: i64 = Connection::open(scratch.file())
        .unwrap()
        .query_row(parts, [], |row| row.get(0))
        .unwrap();
    assert_eq!(parts, 1);
}

#[tokio::test]
async fn while_another_process_holds_the_file_events_wait_and_are_read() {
    let scratch = Scratch::new();
    let log = log(&scratch);
    log.record(event(0));
    until("written", || log.health().written == 1);
    let other = Connection::open(scratch.file()).unwrap();
    other.execute_batch("begin immediate").unwrap();
    log.record(event(1));
    until("degraded", || log.health().degraded.is_some());
    let found = log.find(Query::default()).await.unwrap();
    assert_eq!(found.iter().map(number).collect::<Vec<_>>(), [0]);
    assert_eq!(log.health().dropped, 0);
    other.execute_batch("rollback").unwrap();
    until("written", || log.health().written == 2);
    assert_eq!(log.health().degraded, None);
}

#[test]
fn a_damaged_file_is_put_aside() {
    for damage in ["all", "header", "inside"] {
        let scratch = Scratch::new();
        let before = log(&scratch);
        (0..500).for_each(|n| before.record(event(n)));
        before.close();
        let mut bytes = fs::read(scratch.file()).unwrap();
        let damaged = match damage {
            "all" => 0..bytes.len(),
            "header" => 0..16,
            // Behind the first page, which says what there is.
            _ => 8_192..bytes.len(),
        };
        bytes[damaged].fill(0x5a);
        fs::write(scratch.file(), &bytes).unwrap();
        let after = log(&scratch);
        after.record(event(1_000));
        until(damage, || after.health().written == 1);
        after.close();
        assert_eq!(after.health().dropped, 0);
        assert_eq!(written(&scratch.file()), [1_000], "{damage}");
        let aside = fs::read(scratch.0.join("events.db.corrupt")).unwrap();
        assert!(aside == bytes, "{damage}");
    }
}

#[test]
fn a_file_that_vanishes_is_made_again() {
    let scratch = Scratch::new();
    let log = log(&scratch);
    log.record(event(0));
    until("written", || log.health().written == 1);
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(scratch.0.join(format!("events.db{suffix}")));
    }
    log.record(event(1));
    until("written again", || log.health().written == 2);
    assert_eq!(written(&scratch.file()), [1]);
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let scratch = Scratch::new();
    let other = Connection::open(scratch.file()).unwrap();
    other
        .execute_batch("create table accounts (name text)")
        .unwrap();
    drop(other);
    let before = fs::read(scratch.file()).unwrap();
    let log = log(&scratch);
    log.record(event(0));
    until("degraded", || log.health().degraded.is_some());
    let why = log.health().degraded.unwrap();
    assert_eq!(why, "the file is not an event log of this version");
    log.close();
    assert_eq!(fs::read(scratch.file()).unwrap(), before);
}

#[test]
fn a_place_that_cannot_be_written_can_become_one() {
    let scratch = Scratch::new();
    let folder = scratch.0.join("folder");
    fs::write(&folder, "in the way").unwrap();
    let file = folder.join("events.db");
    let log = Log::start(StoreLocation::File(file.clone()), PLENTY).unwrap();
    log.record(event(0));
    until("degraded", || log.health().degraded.is_some());
    fs::remove_file(&folder).unwrap();
    until("written", || log.health().written == 1);
    assert_eq!(log.health().degraded, None);
    assert_eq!(written(&file), [0]);
}

/// Of the test below, in a process where files cannot grow beyond 256 KiB.
#[test]
fn in_a_full_place() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Some(folder) = std::env::var_os("MCP_GATEWAY_TEST_FULL") else {
        return;
    };
    let log = Log::start(StoreLocation::File(folder.into()), PLENTY).unwrap();
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
    let Health {
        written, dropped, ..
    } = log.health();
    assert!(written > before);
    let told = u64::from(dropped > 0);
    assert_eq!(written + dropped, recorded as u64 + told);
}

#[test]
fn a_full_disk_is_survived() {
    let scratch = Scratch::new();
    // A file that would grow beyond the limit fails to be written, as on a full disk, once the
    // signal that usually comes with it is ignored.
    let script = r#"trap '' XFSZ; ulimit -S -f 512; exec "$0" "$@""#;
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([
            "events::tests::files::in_a_full_place",
            "--exact",
            "--nocapture",
        ])
        .env("MCP_GATEWAY_TEST_FULL", scratch.file())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    let mut store = StoreLocation::File(scratch.file()).open().unwrap();
    assert_eq!(store.find(&Query::default()).unwrap().len(), 100);
}
