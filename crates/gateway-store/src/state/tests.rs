//! Tests of the state on SQLite, and on PostgreSQL if `MCP_TEST_POSTGRES_URL` names one.

use super::table::{all, apply, changes, clock};
use super::*;
use crate::Database;
use crate::database::StoreLocation;
use crate::events::Retention;
use crate::events::tests::{Scratch, until};

fn change(key: &str, expected: Expected, value: Option<&str>) -> EntryChange {
    EntryChange {
        kind: EntryKind::Pin,
        key: key.to_owned(),
        expected,
        value: value.map(Arc::from),
    }
}

/// The address of the database for tests.
pub(crate) fn address() -> Option<String> {
    let address = std::env::var("MCP_TEST_POSTGRES_URL").ok();
    let address = address.filter(|address| !address.is_empty());
    if address.is_none() {
        let is_unwanted = std::env::var_os("MCP_TEST_WITHOUT_SERVICES").is_some();
        assert!(!is_unwanted, "a test without services needs a database");
        eprintln!("skipped: MCP_TEST_POSTGRES_URL names no database");
    }
    address
}

/// Runs SQL in another thread, since a store must not block the runtime of a test.
pub(crate) fn run(address: &str, sql: &str) {
    let location = StoreLocation::Postgres(address.to_owned());
    let work = || location.connect().unwrap().batch(sql).unwrap();
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

/// An empty schema of the database for tests.
pub(crate) fn postgres(schema: &str) -> Option<StoreLocation> {
    let address = address()?;
    let sql = format!("drop schema if exists {schema} cascade; create schema {schema}");
    run(&address, &sql);
    let more = if address.contains('?') { '&' } else { '?' };
    let address = format!("{address}{more}options=-csearch_path%3D{schema}");
    Some(StoreLocation::Postgres(address))
}

fn check_database(location: &StoreLocation) {
    let mut one = location.connect().unwrap();
    let mut two = location.connect().unwrap();
    let before = clock(&mut two).unwrap();
    let both = [
        change("a/1", Expected::Missing, Some("1")),
        change("b/1", Expected::Any, Some("2")),
    ];
    assert!(apply(&mut one, &both).unwrap());
    let after = clock(&mut two).unwrap();
    assert_ne!(after, before, "seen by another connection");
    assert!(!apply(&mut two, &both).unwrap(), "not missing any more");
    let mut entries = all(&mut two).unwrap();
    let found = entries.get(EntryKind::Pin, "a/1").unwrap().clone();
    assert_eq!(&*found.value, "1");
    assert_eq!(entries.matching(EntryKind::Pin, "b/").count(), 1);
    assert_eq!(entries.matching(EntryKind::Approval, "").count(), 0);
    // Two that decide about the same entry: the first one wins, and the other changes nothing at all.
    let decide = |value| change("a/1", Expected::entry(Some(&found)), value);
    assert!(apply(&mut one, &[decide(Some("yes"))]).unwrap());
    let late = [change("c/1", Expected::Any, Some("3")), decide(Some("no"))];
    assert!(!apply(&mut two, &late).unwrap());
    entries.add(changes(&mut two, found.revision).unwrap());
    assert_eq!(&*entries.get(EntryKind::Pin, "a/1").unwrap().value, "yes");
    assert!(entries.get(EntryKind::Pin, "c/1").is_none());
    // An entry that is not there has no revision.
    let absent = change("d/1", Expected::entry(Some(&found)), Some("4"));
    assert!(!apply(&mut one, &[absent]).unwrap());
    assert!(apply(&mut one, &[change("a/1", Expected::Any, None)]).unwrap());
    entries.add(changes(&mut two, found.revision).unwrap());
    assert!(entries.get(EntryKind::Pin, "a/1").is_none(), "removed");
    let again = change("a/1", Expected::Missing, Some("4"));
    assert!(apply(&mut one, &[again]).unwrap());
}

fn start(location: StoreLocation) -> Database {
    Database::start(location, Retention::default(), None).unwrap()
}

/// A store has its own changes at once, and those of another process soon.
async fn check_store(location: StoreLocation) {
    let database = start(location.clone());
    let store = &database.state;
    let has = |key: &str| store.entries().get(EntryKind::Pin, key).is_some();
    let changed = store.change(vec![change("s/1", Expected::Missing, Some("1"))]);
    assert!(changed.await.unwrap());
    assert!(has("s/1"), "its own at once");
    let conflict = store.change(vec![change("s/1", Expected::Missing, Some("2"))]);
    assert!(!conflict.await.unwrap());
    let work = move || {
        check_database(&location);
        let mut other = location.connect().unwrap();
        let entry = change("s/2", Expected::Missing, Some("2"));
        assert!(apply(&mut other, &[entry]).unwrap());
    };
    std::thread::spawn(work).join().unwrap();
    until("followed", || has("a/1") && has("s/2"));
    let close = tokio::task::spawn_blocking(move || database.close());
    close.await.unwrap();
}

#[tokio::test]
async fn sqlite_changes_are_atomic_and_followed() {
    let scratch = Scratch::new();
    check_store(StoreLocation::File(scratch.file())).await;
}

#[tokio::test]
async fn postgres_changes_are_atomic_and_followed() {
    if let Some(location) = postgres("state_database") {
        check_store(location).await;
    }
}

#[tokio::test]
async fn removed_file_is_written_again() {
    let file = Scratch::new();
    let database = start(StoreLocation::File(file.file()));
    let store = &database.state;
    let entry = vec![change("a/1", Expected::Missing, Some("1"))];
    assert!(store.change(entry).await.unwrap());
    file.remove();
    let is_stored = || {
        let connection = StoreLocation::File(file.file()).connect().ok();
        let entries = connection.and_then(|mut connection| all(&mut connection).ok());
        entries.is_some_and(|entries| entries.get(EntryKind::Pin, "a/1").is_some())
    };
    until("stored again", is_stored);
    assert!(store.entries().get(EntryKind::Pin, "a/1").is_some());
}

#[tokio::test]
async fn unavailable_database_holds_nothing_up() {
    let file = Scratch::new();
    // A file in the place of the folder.
    std::fs::remove_dir_all(&file.0).unwrap();
    std::fs::write(&file.0, "").unwrap();
    let database = start(StoreLocation::File(file.file()));
    let store = &database.state;
    let entry = change("a/1", Expected::Missing, Some("1"));
    store.request_change(vec![entry.clone()]);
    assert!(!store.entries().are_read);
    assert!(store.change(vec![entry.clone()]).await.is_err());
    std::fs::remove_file(&file.0).unwrap();
    until("read", || store.entries().are_read);
    assert!(store.change(vec![entry]).await.unwrap());
}
