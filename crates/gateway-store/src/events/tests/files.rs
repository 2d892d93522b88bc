//! Tests of the log with damaged, locked and missing files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use rusqlite::Connection;

use super::*;

/// The numbers of all events in the file, read through another connection.
fn written(file: &std::path::Path) -> Vec<usize> {
    let mut store = StoreLocation::File(file.to_owned()).connect().unwrap();
    let query = Query::default().with_type("test.happened");
    found(&mut store, &query.with_limit(MAX_QUERY_LIMIT))
}

#[test]
fn restart_appends_to_the_file() {
    let scratch = Scratch::new();
    for n in 0..3 {
        let database = start(&scratch);
        database.log.record(event(n));
        database.close();
    }
    assert_eq!(written(&scratch.file()), [0, 1, 2]);
    let mode = fs::metadata(scratch.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn events_wait_while_another_process_locks_the_file() {
    let scratch = Scratch::new();
    let database = start(&scratch);
    write(&database, 0, 1);
    let other = Connection::open(scratch.file()).unwrap();
    other.execute_batch("begin immediate").unwrap();
    database.log.record(event(1));
    degraded(&database);
    let found = database.log.find(Query::default()).await.unwrap();
    assert_eq!(found.iter().map(number).collect::<Vec<_>>(), [0]);
    assert_eq!(database.log.health().dropped, 0);
    other.execute_batch("rollback").unwrap();
    until("written", || database.log.health().written == 2);
    assert_eq!(database.log.health().degraded, None);
}

#[test]
fn damaged_file_is_renamed() {
    for damage in ["all", "header", "inside"] {
        let scratch = Scratch::new();
        let before = start(&scratch);
        (0..500).for_each(|n| before.log.record(event(n)));
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
        let after = start(&scratch);
        // And an event about it.
        write(&after, 1_000, 2);
        let replaced = after.log.health().replaced.unwrap();
        assert!(replaced.contains("was renamed"), "{replaced}");
        after.close();
        assert_eq!(after.log.health().dropped, 0);
        assert_eq!(written(&scratch.file()), [1_000], "{damage}");
        let aside = fs::read(scratch.0.join("events.db.corrupt")).unwrap();
        assert!(aside == bytes, "{damage}");
    }
}

/// Seen without a new event, also if only the write-ahead log is gone.
#[test]
fn removed_file_is_noticed() {
    for gone in ["all", "", "-wal"] {
        let scratch = Scratch::new();
        let database = start(&scratch);
        write(&database, 0, 1);
        match gone {
            "all" => scratch.remove(),
            suffix => fs::remove_file(scratch.0.join(format!("events.db{suffix}"))).unwrap(),
        }
        until("noticed", || database.log.health().replaced.is_some());
        until("the file", || {
            database.log.health().written == 2 && scratch.file().exists()
        });
        write(&database, 1, 3);
        assert_eq!(database.log.health().degraded, None);
        let found = written(&scratch.file());
        assert_eq!(found.last(), Some(&1), "{gone:?}: {found:?}");
        assert_eq!(found.len(), 1 + usize::from(gone == "-wal"), "{found:?}");
    }
}

#[test]
fn file_of_another_application_or_version_is_named_and_not_changed() {
    for (is_log, change, expected) in [
        (
            false,
            "create table accounts (name text)",
            "the file is not an event log of this version",
        ),
        (true, "pragma user_version = 3", "of an earlier gateway"),
        (true, "pragma user_version = 5", "of a newer gateway"),
    ] {
        let scratch = Scratch::new();
        if is_log {
            drop(StoreLocation::File(scratch.file()).connect().unwrap());
        }
        let other = Connection::open(scratch.file()).unwrap();
        other.execute_batch(change).unwrap();
        drop(other);
        let before = fs::read(scratch.file()).unwrap();
        let database = start(&scratch);
        database.log.record(event(0));
        let reason = degraded(&database);
        assert!(reason.contains(expected), "{reason}");
        database.close();
        assert_eq!(fs::read(scratch.file()).unwrap(), before);
    }
}

/// The child process of the next test, in which files cannot grow beyond 1 MiB.
#[test]
fn full_disk_child() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Some(file) = std::env::var_os("MCP_GATEWAY_TEST_FULL") else {
        return;
    };
    let location = StoreLocation::File(file.into());
    let database = Database::start(location.clone(), Retention::default(), None).unwrap();
    let mut recorded = 0;
    until("full", || {
        // Many in one write: each write takes whole pages.
        for _ in 0..10 {
            database.log.record(event(recorded));
            recorded += 1;
        }
        database.log.health().degraded.is_some()
    });
    let before = database.log.health().written;
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard).unwrap();
    until("room again", || {
        let health = database.log.health();
        health.degraded.is_none() && health.waiting == 0
    });
    database.close();
    let health = database.log.health();
    assert!(health.written > before);
    let reports = Query::default().with_type(kind::EVENTS_DROPPED);
    let reports = EventReader::open(&location)
        .unwrap()
        .find(&reports)
        .unwrap()
        .len();
    let counted = health.written + health.dropped;
    assert_eq!(counted, (recorded + reports) as u64);
}

#[test]
fn log_recovers_from_a_full_disk() {
    let scratch = Scratch::new();
    // Writes beyond the limit fail as on a full disk, if the signal SIGXFSZ is ignored.
    let script = r#"trap '' XFSZ; ulimit -S -f 2048; exec "$0" "$@""#;
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
    let mut reader = EventReader::open(&StoreLocation::File(scratch.file())).unwrap();
    assert_eq!(reader.find(&Query::default()).unwrap().len(), 100);
}
