//! Entries of the state, and changes of them.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

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
pub(super) struct EntryRow {
    pub(super) kind: EntryKind,
    pub(super) key: String,
    pub(super) value: Option<Arc<str>>,
    pub(super) revision: i64,
}
