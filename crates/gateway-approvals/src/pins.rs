//! Pins: the definitions that the backends' tools had when they were approved, over restarts.
//!
//! A tool whose definition changes later ("rug pull") may have been harmless only at first.
//!
//! * [`record`]: the stored form; [`definition`]: one form and hash of a definition; [`mod@diff`]: what has changed;
//!   [`policy`]: the settings.
//!
//! While the database cannot be read, a tool is compared with what this process has seen; what was approved
//! before is compared as soon as it can be read.

mod definition;
mod diff;
mod policy;
mod record;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use gateway_store::state::{Entries, Entry, EntryChange, EntryKind, Expected, StateStore};
use hmac_sha256::Hash;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::watch;
use upstream::text::hexadecimal;
use upstream::time::Timestamp;

pub use self::diff::{diff, printable};
pub use self::policy::{FirstSight, PinMode, PinPolicy};
pub use self::record::{Pin, PinDecision, PinStatus, PinnedDefinition};

/// Limit for the remembered tools of one backend. None of them is forgotten for others: a backend could list
/// so many that a changed tool counts as new.
const MAX_PINS: usize = 20_000;

/// Limit for a definition that is kept for diffs; of a longer one only the hash is kept.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Limit for all kept definitions of one backend.
const MAX_BACKEND_BYTES: usize = 16 << 20;

/// A tool in a backend's list.
pub struct ListedTool<'a> {
    /// Its name in the list.
    pub name: &'a str,
    /// Its definition, as the backend has written it.
    pub definition: &'a RawValue,
    /// Of the definition without its name; see [`hash`].
    pub hash: &'a str,
}

/// Why a tool is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// Its definition is not the approved one.
    Changed,
    /// Its definition is that of an approved tool with this name, which is not listed any more.
    Renamed(String),
    /// It was never seen before.
    New,
    /// Its definition was refused.
    Refused,
    /// The backend lists more tools than are remembered.
    TooMany,
}

/// A tool whose definition is not the one of the last check.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolChange {
    /// Its name in the list.
    pub tool: String,
    /// Hashes of the definition; no old one for a new tool.
    pub old: Option<String>,
    /// The hash of its definition now.
    pub new: String,
    /// The old name, if only the name has changed.
    pub renamed_from: Option<String>,
    /// True if it is held back.
    pub is_held: bool,
}

/// The outcome of a check.
#[derive(Debug, Default)]
pub struct PinCheck {
    /// The tools that are held back.
    pub held: BTreeMap<String, HoldReason>,
    /// The tools that have changed since the last check.
    pub changes: Vec<ToolChange>,
}

/// The pins of all backends.
pub struct Pins {
    state: Arc<StateStore>,
    /// Pins that are not stored yet, by key, and the entries that they replace.
    unstored: Mutex<HashMap<String, (Pin, Expected)>>,
}

/// Returns the hash of a definition without its name.
pub fn hash(definition: &RawValue) -> String {
    definition::hash(&definition::canonical(definition))
}

/// Returns the key of the pin of a tool. The name may be long, and have any characters.
fn key(backend: &str, tool: &str) -> String {
    let name = Hash::hash(tool.as_bytes());
    format!("{backend}/{}", hexadecimal(&name[..16]))
}

/// Reads the pins of a backend, or of all backends for an empty `backend`, with their keys and entries.
pub fn read(entries: &Entries, backend: &str) -> Vec<(String, Pin, Entry)> {
    let prefix = match backend {
        "" => String::new(),
        backend => format!("{backend}/"),
    };
    let pins = entries
        .matching(EntryKind::Pin, &prefix)
        .filter_map(|(key, entry)| Some((key.to_owned(), entry.read()?, entry.clone())));
    pins.collect()
}

/// The change that stores `pin` in the place of `expected`.
pub fn store(key: String, pin: &Pin, expected: Expected) -> EntryChange {
    EntryChange::store(EntryKind::Pin, key, pin, expected)
}

impl Pins {
    /// Keeps the pins in `state`.
    pub fn new(state: Arc<StateStore>) -> Self {
        let unstored = Mutex::default();
        Self { state, unstored }
    }

    /// A receiver that is notified when pins may have changed.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Entries>> {
        self.state.subscribe()
    }

    /// A number that changes with every change of a backend's pins.
    pub fn revision(&self, backend: &str) -> i64 {
        let entries = self.state.entries();
        let prefix = format!("{backend}/");
        let pins = entries.matching(EntryKind::Pin, &prefix);
        let newest = pins.map(|(_, entry)| entry.revision).max();
        newest.unwrap_or_default()
    }

    /// Compares the tools of a backend with its pins. Remembers new tools; with `is_new_list` also which of
    /// them have changed.
    pub fn check(
        &self,
        backend: &str,
        policy: PinPolicy,
        tools: &[ListedTool<'_>],
        is_new_list: bool,
    ) -> PinCheck {
        let mut unstored = self.unstored.lock();
        let prefix = format!("{backend}/");
        if policy.mode == PinMode::Off {
            unstored.retain(|key, _| !key.starts_with(&prefix));
            return PinCheck::default();
        }
        let entries = self.state.entries();
        let mut pins: HashMap<String, (Pin, Expected)> = HashMap::new();
        let mut bytes = 0;
        for (key, pin, entry) in read(&entries, backend) {
            bytes += entry.value.len();
            pins.insert(key, (pin, Expected::Revision(entry.revision)));
        }
        unstored.retain(|key, (pin, expected)| {
            if !key.starts_with(&prefix) {
                return true;
            }
            let stored = pins
                .get(key)
                .map_or(Expected::Missing, |(_, stored)| *stored);
            let is_waiting = stored == *expected;
            if is_waiting {
                pins.insert(key.clone(), (pin.clone(), *expected));
            }
            is_waiting
        });
        let present: BTreeSet<&str> = tools.iter().map(|tool| tool.name).collect();
        let gone = pins.values().filter_map(|(pin, _)| {
            let is_gone = !present.contains(pin.tool.as_str());
            let approved = pin.approved.as_ref().filter(|_| is_gone)?;
            Some((approved.hash.clone(), pin.tool.clone()))
        });
        let mut judge = Judge {
            backend,
            policy,
            is_new_list,
            bytes,
            gone: gone.collect(),
            outcome: PinCheck::default(),
        };
        let count = pins.len();
        let mut added = 0;
        for tool in tools {
            let key = key(backend, tool.name);
            let known = pins.get(&key);
            if known.is_none() && count + added >= MAX_PINS {
                judge.too_many(tool);
                continue;
            }
            added += usize::from(known.is_none());
            if let Some(pin) = judge.tool(tool, known.map(|(pin, _)| pin)) {
                let expected = known.map_or(Expected::Missing, |(_, expected)| *expected);
                unstored.insert(key, (pin, expected));
            }
        }
        // Also those that could not be stored before.
        let waiting = unstored.iter().filter(|(key, _)| key.starts_with(&prefix));
        let changes = waiting.map(|(key, (pin, expected))| store(key.clone(), pin, *expected));
        let changes: Vec<EntryChange> = changes.collect();
        if !changes.is_empty() {
            self.state.request_change(changes);
        }
        judge.outcome
    }

    /// True if pins of this backend wait to be stored.
    pub fn has_unstored(&self, backend: &str) -> bool {
        let prefix = format!("{backend}/");
        let unstored = self.unstored.lock();
        unstored.keys().any(|key| key.starts_with(&prefix))
    }
}

/// One check of a backend's tools.
struct Judge<'a> {
    backend: &'a str,
    policy: PinPolicy,
    is_new_list: bool,
    /// Bytes of the definitions that are kept.
    bytes: usize,
    /// The names of approved tools that are not listed any more, by their hashes.
    gone: HashMap<String, String>,
    outcome: PinCheck,
}

impl Judge<'_> {
    /// Decides about a tool. Returns its pin if it has changed.
    fn tool(&mut self, tool: &ListedTool<'_>, known: Option<&Pin>) -> Option<Pin> {
        let Some(known) = known else {
            return Some(self.first_sight(tool));
        };
        let approved = known.approved.as_ref().map(|approved| &approved.hash);
        let offered = known.offered.as_ref().map(|offered| &offered.hash);
        if approved.is_some_and(|hash| hash == tool.hash) {
            // Only a list is news: another gateway may just have seen the other definition.
            let left = offered.filter(|_| self.is_new_list)?;
            self.change(tool, Some(left.clone()), None, false);
            return Some(Pin {
                offered: None,
                refused: None,
                ..known.clone()
            });
        }
        let reason = if known.refused.as_deref() == Some(tool.hash) {
            Some(HoldReason::Refused)
        } else {
            let reason = match (&known.approved, &known.renamed_from) {
                (Some(_), _) => HoldReason::Changed,
                (None, Some(from)) => HoldReason::Renamed(from.clone()),
                (None, None) => HoldReason::New,
            };
            self.holds(&reason).then_some(reason)
        };
        let is_held = reason.is_some();
        if let Some(reason) = reason {
            self.outcome.held.insert(tool.name.to_owned(), reason);
        }
        if offered.is_some_and(|hash| hash == tool.hash) {
            return None;
        }
        let old = offered.or(approved).cloned();
        self.change(tool, old, None, is_held);
        Some(Pin {
            offered: Some(self.definition(tool)),
            ..known.clone()
        })
    }

    fn first_sight(&mut self, tool: &ListedTool<'_>) -> Pin {
        let mut pin = Pin {
            backend: self.backend.to_owned(),
            tool: tool.name.to_owned(),
            renamed_from: self.gone.remove(tool.hash),
            ..Pin::default()
        };
        let reason = match &pin.renamed_from {
            Some(from) => HoldReason::Renamed(from.clone()),
            None => HoldReason::New,
        };
        let is_held = self.holds(&reason);
        let definition = self.definition(tool);
        if pin.renamed_from.is_none() && !is_held {
            pin.approved = Some(definition);
            return pin;
        }
        pin.offered = Some(definition);
        let old = pin.renamed_from.is_some().then(|| tool.hash.to_owned());
        self.change(tool, old, pin.renamed_from.clone(), is_held);
        if is_held {
            self.outcome.held.insert(tool.name.to_owned(), reason);
        }
        pin
    }

    fn too_many(&mut self, tool: &ListedTool<'_>) {
        if self.holds(&HoldReason::TooMany) {
            let name = tool.name.to_owned();
            self.outcome.held.insert(name, HoldReason::TooMany);
        }
    }

    fn holds(&self, reason: &HoldReason) -> bool {
        let PinPolicy { mode, first_sight } = self.policy;
        match reason {
            HoldReason::Refused => true,
            HoldReason::New => first_sight == FirstSight::Hold,
            HoldReason::TooMany => mode == PinMode::Hold || first_sight == FirstSight::Hold,
            HoldReason::Changed | HoldReason::Renamed(_) => mode == PinMode::Hold,
        }
    }

    fn definition(&mut self, tool: &ListedTool<'_>) -> PinnedDefinition {
        let text = definition::canonical(tool.definition);
        let is_kept = text.len() <= MAX_TEXT_BYTES && self.bytes + text.len() <= MAX_BACKEND_BYTES;
        if is_kept {
            self.bytes += text.len();
        }
        PinnedDefinition {
            hash: tool.hash.to_owned(),
            text: is_kept.then_some(text),
            since: now(),
        }
    }

    fn change(
        &mut self,
        tool: &ListedTool<'_>,
        old: Option<String>,
        renamed_from: Option<String>,
        is_held: bool,
    ) {
        self.outcome.changes.push(ToolChange {
            tool: tool.name.to_owned(),
            old,
            new: tool.hash.to_owned(),
            renamed_from,
            is_held,
        });
    }
}

/// The time for records.
pub fn now() -> String {
    Timestamp::now().strftime("%FT%TZ").to_string()
}

/// The reason, to follow "is held back: ".
impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("its definition has changed since it was approved"),
            Self::Renamed(from) => write!(f, "it was called {from:?} when it was approved"),
            Self::New => f.write_str("it is new and not approved yet"),
            Self::Refused => f.write_str("its definition was refused"),
            Self::TooMany => write!(f, "its backend has listed more than {MAX_PINS} tools"),
        }
    }
}

#[cfg(test)]
mod tests;
