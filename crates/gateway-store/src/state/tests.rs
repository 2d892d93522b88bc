//! Tests of the state on SQLite, and on PostgreSQL if `MCP_TEST_POSTGRES_URL` names one.

use std::time::{Duration, Instant};

use super::*;

fn change(key: &str, expected: Expected, value: Option<&str>) -> EntryChange {
    EntryChange {
        kind: EntryKind::Pin,
        key: key.to_owned(),
        expected,
        value: value.map(Arc::from),
    }
}

/// A file in a folder of its own, which is removed at the end.
struct TemporaryFile(std::path::PathBuf);

impl TemporaryFile {
    fn new() -> Self {
        let name = format!("mcp-state-{}", uuid::Uuid::new_v4().simple());
        Self(std::env::temp_dir().join(name))
    }

    fn location(&self) -> StoreLocation {
        StoreLocation::File(self.0.join("events.db"))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An empty schema of the database for tests.
pub(crate) fn postgres(schema: &str) -> Option<StoreLocation> {
    let address = std::env::var("MCP_TEST_POSTGRES_URL").ok();
    let Some(address) = address.filter(|address| !address.is_empty()) else {
        eprintln!("skipped: MCP_TEST_POSTGRES_URL names no database");
        return None;
    };
    let Ok(Database::Postgres(connection)) = StoreLocation::Postgres(address.clone()).connect()
    else {
        panic!("no database");
    };
    let sql = format!("drop schema if exists {schema} cascade; create schema {schema}");
    let created = connection.within(async { Ok(connection.client.batch_execute(&sql).await?) });
    created.unwrap();
    let more = if address.contains('?') { '&' } else { '?' };
    let address = format!("{address}{more}options=-csearch_path%3D{schema}");
    Some(StoreLocation::Postgres(address))
}

fn check_database(location: &StoreLocation) {
    let mut one = open(location).unwrap();
    let mut two = open(location).unwrap();
    let before = two.clock().unwrap();
    let both = [
        change("a/1", Expected::Missing, Some("1")),
        change("b/1", Expected::Any, Some("2")),
    ];
    assert!(one.apply(&both).unwrap());
    assert_ne!(two.clock().unwrap(), before, "seen by another connection");
    assert!(!two.apply(&both).unwrap(), "not missing any more");
    let entries = Entries::read(&mut *two).unwrap();
    let found = entries.get(EntryKind::Pin, "a/1").unwrap().clone();
    assert_eq!(&*found.value, "1");
    assert_eq!(entries.matching(EntryKind::Pin, "b/").count(), 1);
    assert_eq!(entries.matching(EntryKind::Approval, "").count(), 0);
    // Two that decide about the same entry: the first one wins, and the other changes nothing at all.
    let decide = |value| change("a/1", Expected::entry(Some(&found)), value);
    assert!(one.apply(&[decide(Some("yes"))]).unwrap());
    let late = [change("c/1", Expected::Any, Some("3")), decide(Some("no"))];
    assert!(!two.apply(&late).unwrap());
    let after = two.clock().unwrap();
    let mut entries = entries;
    entries.add(two.changes(found.revision).unwrap());
    assert_eq!(&*entries.get(EntryKind::Pin, "a/1").unwrap().value, "yes");
    assert!(entries.get(EntryKind::Pin, "c/1").is_none());
    assert!(one.apply(&[change("a/1", Expected::Any, None)]).unwrap());
    entries.add(two.changes(after.revision).unwrap());
    assert!(entries.get(EntryKind::Pin, "a/1").is_none(), "removed");
    assert!(
        one.apply(&[change("a/1", Expected::Missing, Some("4"))])
            .unwrap()
    );
}

#[test]
fn sqlite_changes_are_atomic_and_followed() {
    check_database(&TemporaryFile::new().location());
}

#[test]
fn postgres_changes_are_atomic_and_followed() {
    if let Some(location) = postgres("state_database") {
        check_database(&location);
    }
}

#[test]
fn state_of_a_newer_gateway_is_refused() {
    let file = TemporaryFile::new();
    drop(open(&file.location()).unwrap());
    let Ok(Database::Sqlite(database)) = file.location().connect() else {
        panic!("no file");
    };
    let newer = "update state_clock set version = 2";
    database.connection.execute(newer, []).unwrap();
    let reason = open(&file.location()).err().unwrap().reason;
    assert!(reason.contains("version 2, of a newer gateway"), "{reason}");
    // The events of an older one stay readable.
    assert!(file.location().connect().is_ok());
}

async fn until(what: &str, mut is_done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

async fn check_store(location: StoreLocation) {
    let store = StateStore::start(location.clone()).unwrap();
    let changed = store.change(vec![change("a/1", Expected::Missing, Some("1"))]);
    assert!(changed.await.unwrap());
    assert!(
        store.entries().get(EntryKind::Pin, "a/1").is_some(),
        "its own at once"
    );
    let conflict = store.change(vec![change("a/1", Expected::Missing, Some("2"))]);
    assert!(!conflict.await.unwrap());
    let work = move || {
        let mut other = open(&location).unwrap();
        assert!(
            other
                .apply(&[change("b/1", Expected::Missing, Some("2"))])
                .unwrap()
        );
    };
    std::thread::spawn(work).join().unwrap();
    let took = until("followed", || {
        store.entries().get(EntryKind::Pin, "b/1").is_some()
    });
    assert!(took.await < Duration::from_secs(10));
    store.close();
}

#[tokio::test]
async fn change_of_another_process_is_followed_within_a_second() {
    check_store(TemporaryFile::new().location()).await;
    {
        let location = std::thread::spawn(|| postgres("state_store"));
        if let Some(location) = location.join().unwrap() {
            check_store(location).await;
        }
    }
}

#[tokio::test]
async fn removed_file_is_written_again() {
    let file = TemporaryFile::new();
    let store = StateStore::start(file.location()).unwrap();
    let entry = vec![change("a/1", Expected::Missing, Some("1"))];
    assert!(store.change(entry).await.unwrap());
    std::fs::remove_dir_all(&file.0).unwrap();
    let is_stored = || {
        let database = open(&file.location()).ok();
        let entries = database.and_then(|mut database| Entries::read(&mut *database).ok());
        entries.is_some_and(|entries| entries.get(EntryKind::Pin, "a/1").is_some())
    };
    until("stored again", is_stored).await;
    assert!(store.entries().get(EntryKind::Pin, "a/1").is_some());
}

#[tokio::test]
async fn unavailable_database_holds_nothing_up() {
    let file = TemporaryFile::new();
    // A file in the place of the folder.
    std::fs::write(&file.0, "").unwrap();
    let store = StateStore::start(file.location()).unwrap();
    let start = Instant::now();
    let entry = change("a/1", Expected::Missing, Some("1"));
    store.request_change(vec![entry.clone()]);
    assert!(!store.entries().are_read);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(store.change(vec![entry.clone()]).await.is_err());
    std::fs::remove_file(&file.0).unwrap();
    until("read", || store.entries().are_read).await;
    assert!(store.change(vec![entry]).await.unwrap());
}
