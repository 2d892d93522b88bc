//! The interface of a database with the state.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::events::StoreError;

/// The version of the tables. A database of a newer one is refused.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Removed entries are kept for this number of changes, so that other gateways see that they are gone.
pub(super) const MAX_REMOVED_AGE: i64 = 10_000;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// The pinned definition of a tool.
    Pin,
    /// A call that waits, or has waited, for an operator.
    Approval,
    /// A gateway with calls that wait, and the last time when it was seen.
    Gateway,
    /// An answer of a user that was used, and the time when it expires.
    UsedAnswer,
}

impl EntryKind {
    const ALL: [Self; 4] = [Self::Pin, Self::Approval, Self::Gateway, Self::UsedAnswer];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Approval => "approval",
            Self::Gateway => "gateway",
            Self::UsedAnswer => "used_answer",
        }
    }

    /// Returns the kind with this name; `None` for one of a later version.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// JSON.
    pub value: Arc<str>,
    /// Grows with each change.
    pub revision: i64,
}

impl Entry {
    /// Reads the value; `None` if it has another form.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.value).ok()
    }
}

/// The entry that a change expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any entry, or none.
    Any,
    /// No entry.
    Missing,
    /// The entry with this revision.
    Revision(i64),
}

impl Expected {
    /// Expects the entry as it was read.
    pub fn entry(entry: Option<&Entry>) -> Self {
        entry.map_or(Self::Missing, |entry| Self::Revision(entry.revision))
    }

    /// Returns the expected revision: 0 for a missing entry, -1 for any.
    pub(super) fn number(self) -> i64 {
        match self {
            Self::Any => -1,
            Self::Missing => 0,
            Self::Revision(revision) => revision,
        }
    }
}

/// A change of one entry.
#[derive(Clone, Debug)]
pub struct EntryChange {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Its key, unique for its kind.
    pub key: String,
    /// The entry before the change.
    pub expected: Expected,
    /// The new value; `None` removes the entry.
    pub value: Option<Arc<str>>,
}

impl EntryChange {
    /// Stores `value` in the place of `expected`.
    pub fn store(kind: EntryKind, key: String, value: &impl Serialize, expected: Expected) -> Self {
        // Serializing the types that are stored here cannot fail.
        let value = serde_json::to_string(value).ok().map(Into::into);
        Self {
            kind,
            key,
            expected,
            value,
        }
    }

    /// Removes the entry, if it is still the same.
    pub fn remove(kind: EntryKind, key: &str, entry: &Entry) -> Self {
        Self {
            kind,
            key: key.to_owned(),
            expected: Expected::Revision(entry.revision),
            value: None,
        }
    }
}

/// A row of the table: an entry, or the mark of a removed one.
pub struct EntryRow {
    pub(super) kind: EntryKind,
    pub(super) key: String,
    pub(super) value: Option<Arc<str>>,
    pub(super) revision: i64,
}

/// The identity of a database, and the revision of its last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateClock {
    pub(super) database: String,
    pub(super) revision: i64,
}

/// A database with the state. Its methods block, but not for more than a few seconds.
pub trait StateDatabase {
    /// # Errors
    /// When it cannot be read, or another database is in its place.
    fn clock(&mut self) -> Result<StateClock, StoreError>;

    /// Returns the entries that have changed after this revision, also removed ones; all for 0.
    ///
    /// # Errors
    /// When they cannot be read.
    fn changes(&mut self, after: i64) -> Result<Vec<EntryRow>, StoreError>;

    /// Makes all of these changes, or none if one of them expects another entry. Returns true if they were made.
    ///
    /// # Errors
    /// When they cannot be stored.
    fn apply(&mut self, changes: &[EntryChange]) -> Result<bool, StoreError>;
}

/// Returns an error for a database of a newer gateway.
pub(super) fn check_version(version: i64) -> Result<(), StoreError> {
    match version > SCHEMA_VERSION {
        true => Err(StoreError::unavailable(format!(
            "its state has version {version}, of a newer gateway; this one knows {SCHEMA_VERSION}"
        ))),
        false => Ok(()),
    }
}
