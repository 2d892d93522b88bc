//! Pins: the definitions that the backends' tools had when they were approved, over restarts.
//!
//! A tool whose definition changes later ("rug pull") may have been harmless only at first.
//!
//! * [`definition`]: one form and hash of a definition, and what has changed in it.
//!
//! While the database cannot be read, a tool is compared with what this process has seen; what was approved
//! before is compared as soon as it can be read.

mod definition;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use gateway_store::events::{Event, EventStatus, kind};
use gateway_store::state::{Entries, Entry, EntryChange, EntryKind, Expected, StateStore};
use hmac_sha256::Hash;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;
use upstream::text::hexadecimal;
use upstream::time::Timestamp;

pub use self::definition::{diff, printable};

/// Limit for the remembered tools of one backend. None of them is forgotten for others: a backend could list
/// so many that a changed tool counts as new.
const MAX_PINS: usize = 20_000;

/// Limit for a definition that is kept for diffs; of a longer one only the hash is kept.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Limit for all kept definitions of one backend.
const MAX_BACKEND_BYTES: usize = 16 << 20;

/// Refused definitions of one tool that are remembered.
const MAX_REFUSALS: usize = 100;

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
    /// The store that knew it was lost.
    Lost,
    /// The store cannot be read.
    Unread,
}

impl HoldReason {
    /// True if nobody has ever approved the tool by its name, or its definition was refused: the tool of another backend
    /// may have the name. Any other tool keeps its name while it is held back, so that callers do not get another tool.
    pub fn is_unapproved(&self) -> bool {
        matches!(
            self,
            Self::New | Self::Renamed(_) | Self::Refused | Self::TooMany
        )
    }

    /// True if the reason is the store, and not the tool.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::Lost | Self::Unread)
    }
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
    /// The backends whose tools a lost store knew; `None` until the store is read.
    lost: watch::Sender<Option<BTreeSet<String>>>,
}

/// The beginning of the keys of entries for backends whose tools a lost store knew, and which have listed none since.
/// Keys of pins have a slash.
const LOST: &str = "lost:";

/// Reads the keys of the backends whose tools a lost store knew, and which have listed none since.
pub fn read_lost(entries: &Entries) -> BTreeSet<String> {
    let marks = entries.matching(EntryKind::Pin, LOST);
    let keys = marks.filter_map(|(key, _)| key.strip_prefix(LOST));
    keys.map(str::to_owned).collect()
}

/// The change that notes that a lost store knew the tools of this backend.
pub fn store_lost(backend: &str) -> EntryChange {
    let key = format!("{LOST}{backend}");
    EntryChange::store(EntryKind::Pin, key, &true, Expected::Any)
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
        Self {
            state,
            unstored: Mutex::default(),
            lost: watch::Sender::default(),
        }
    }

    /// Notes that the store is read, and the backends whose tools a lost one knew. Before that, tools are held back where
    /// their changes are held.
    pub fn set_read(&self, lost: BTreeSet<String>) {
        self.lost.send_replace(Some(lost));
    }

    /// True once the store is read.
    pub fn is_read(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// Completes when the store is read.
    pub async fn store_is_read(&self) {
        let mut lost = self.lost.subscribe();
        // The sender lives as long as `self`.
        let _ = lost.wait_for(Option::is_some).await;
    }

    /// A receiver that is notified when pins may have changed.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Entries>> {
        self.state.subscribe()
    }

    /// A number that changes with every change of a backend's pins.
    pub fn revision(&self, backend: &str) -> i64 {
        if !self.is_read() {
            return i64::MIN;
        }
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
        let is_lost = self
            .lost
            .borrow()
            .as_ref()
            .map(|lost| lost.contains(backend));
        if is_lost.is_none() && policy.holds() {
            let held = tools
                .iter()
                .map(|tool| (tool.name.to_owned(), HoldReason::Unread));
            return PinCheck {
                held: held.collect(),
                changes: Vec::new(),
            };
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
            is_lost: is_lost == Some(true) && policy.holds(),
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
                let reason = HoldReason::TooMany;
                if judge.holds(&reason) {
                    judge.outcome.held.insert(tool.name.to_owned(), reason);
                }
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
        let mark = entries.get(EntryKind::Pin, &format!("{LOST}{backend}"));
        if !changes.is_empty() {
            self.state.request_change(changes);
        } else if let Some(mark) = mark.filter(|_| !tools.is_empty()) {
            // Its tools are known to this store from now on, also those that are held.
            let key = format!("{LOST}{backend}");
            let mark = EntryChange::remove(EntryKind::Pin, &key, mark);
            self.state.request_change(vec![mark]);
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
    /// New tools may have been known to a store that was lost.
    is_lost: bool,
    /// Bytes of the definitions that are kept.
    bytes: usize,
    /// The names of approved tools that are not listed any more, by their hashes.
    gone: HashMap<String, String>,
    outcome: PinCheck,
}

impl Judge<'_> {
    /// Decides about a tool. Returns its pin if it is new or has changed.
    fn tool(&mut self, tool: &ListedTool<'_>, known: Option<&Pin>) -> Option<Pin> {
        let is_new = known.is_none();
        let mut pin = match known {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(Pin {
                backend: self.backend.to_owned(),
                tool: tool.name.to_owned(),
                renamed_from: self.gone.remove(tool.hash),
                is_lost: self.is_lost,
                ..Pin::default()
            }),
        };
        let hash = |definition: &Option<PinnedDefinition>| {
            let definition = definition.as_ref();
            definition.map(|definition| definition.hash.clone())
        };
        let (approved, offered) = (hash(&pin.approved), hash(&pin.offered));
        if approved.as_deref() == Some(tool.hash) {
            // Only a list is news: another gateway may just have seen the other definition.
            let left = offered.filter(|_| self.is_new_list)?;
            self.change(tool, Some(left), None, false);
            pin.to_mut().offered = None;
            return Some(pin.into_owned());
        }
        let reason = match (&pin.approved, &pin.renamed_from) {
            _ if pin.has_refused(tool.hash) => HoldReason::Refused,
            (Some(_), _) => HoldReason::Changed,
            (None, Some(from)) => HoldReason::Renamed(from.clone()),
            (None, None) if pin.is_lost => HoldReason::Lost,
            (None, None) => HoldReason::New,
        };
        let is_held = self.holds(&reason);
        if is_new && !is_held && pin.renamed_from.is_none() {
            pin.to_mut().approved = Some(self.definition(tool));
            return Some(pin.into_owned());
        }
        if is_held {
            self.outcome.held.insert(tool.name.to_owned(), reason);
        }
        if offered.as_deref() == Some(tool.hash) {
            return None;
        }
        match is_new {
            true => {
                let old = pin.renamed_from.as_ref().map(|_| tool.hash.to_owned());
                self.change(tool, old, pin.renamed_from.clone(), is_held);
            }
            false => self.change(tool, offered.or(approved), None, is_held),
        }
        pin.to_mut().offered = Some(self.definition(tool));
        Some(pin.into_owned())
    }

    fn holds(&self, reason: &HoldReason) -> bool {
        let PinPolicy { mode, first_sight } = self.policy;
        match reason {
            HoldReason::Refused => true,
            HoldReason::New => first_sight == FirstSight::Hold,
            HoldReason::TooMany | HoldReason::Lost | HoldReason::Unread => self.policy.holds(),
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
            Self::Lost => f.write_str(
                "the store that knew it was lost or damaged, so that it may have changed since it was approved",
            ),
            Self::Unread => f.write_str("the store that knows it cannot be read"),
        }
    }
}

/// The reaction to a tool whose definition differs from the one that was approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Offers it, unless it was refused, and records an event.
    #[default]
    Warn,
    /// Also holds it back until it is approved.
    Hold,
    /// Remembers and compares nothing.
    Off,
}

/// The reaction to a tool that was never seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FirstSight {
    /// Counts as approved.
    #[default]
    Trust,
    /// Is held back until it is approved.
    Hold,
}

/// Both settings of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinPolicy {
    /// The reaction to a changed tool.
    pub mode: PinMode,
    /// The reaction to a new tool.
    pub first_sight: FirstSight,
}

impl PinPolicy {
    /// True if some tools are held back until they are approved.
    pub fn holds(self) -> bool {
        self.mode == PinMode::Hold || self.first_sight == FirstSight::Hold
    }

    /// Returns the policy with these settings in the place of its own.
    pub fn with(self, mode: Option<PinMode>, first_sight: Option<FirstSight>) -> Self {
        Self {
            mode: mode.unwrap_or(self.mode),
            first_sight: first_sight.unwrap_or(self.first_sight),
        }
    }
}

/// A tool of a backend, with the definitions that were approved and offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The key of the backend.
    pub backend: String,
    /// The name in its list.
    pub tool: String,
    /// `None` until the tool is approved for the first time.
    pub approved: Option<PinnedDefinition>,
    /// The definition that the backend offered last, if it is not the approved one.
    pub offered: Option<PinnedDefinition>,
    /// The hashes of the definitions that were refused, the oldest first. They stay refused when the backend offers
    /// another one meanwhile.
    #[serde(default)]
    pub refusals: Vec<String>,
    /// The earlier name of the tool, if only that has changed.
    pub renamed_from: Option<String>,
    /// True if it was new when the store had been lost.
    #[serde(default)]
    pub is_lost: bool,
    /// The last decision.
    pub decided: Option<PinDecision>,
}

/// A definition at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedDefinition {
    /// See [`hash`].
    pub hash: String,
    /// Canonical JSON; `None` if it is too long to be kept.
    pub text: Option<String>,
    /// The time when it was first seen.
    pub since: String,
}

/// A decision about a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinDecision {
    /// The time.
    pub at: String,
    /// The person or program.
    pub by: String,
}

impl Pin {
    /// Returns its state, for people.
    pub fn status(&self) -> &'static str {
        match &self.offered {
            None => "approved",
            Some(offered) if self.has_refused(&offered.hash) => "refused",
            Some(_) if self.approved.is_some() => "changed",
            Some(_) if self.renamed_from.is_some() => "renamed",
            Some(_) => "new",
        }
    }

    /// Notes a decision about the definition that is offered. Returns the event to record once the pin is stored.
    pub fn decide(&mut self, approve: bool, by: String) -> Event {
        let hash = self.offered.as_ref().map(|offered| offered.hash.clone());
        let facts = json!({
            "backend": self.backend,
            "tool_name": self.tool,
            "decision": if approve { "approved" } else { "refused" },
            "hash": hash,
            "by": by,
        });
        self.decided = Some(PinDecision { at: now(), by });
        self.refusals
            .retain(|refused| Some(refused) != hash.as_ref());
        if approve {
            self.approved = self.offered.take();
            self.renamed_from = None;
            self.is_lost = false;
        } else {
            self.refusals.extend(hash);
            let surplus = self.refusals.len().saturating_sub(MAX_REFUSALS);
            self.refusals.drain(..surplus);
        }
        Event::new(kind::TOOL_DECIDED, EventStatus::Success, facts)
    }

    fn has_refused(&self, hash: &str) -> bool {
        self.refusals.iter().any(|refused| refused == hash)
    }

    /// Returns what has changed, a line for each value; `None` if a definition is too long to be kept.
    pub fn diff(&self) -> Option<Vec<String>> {
        let offered = self.offered.as_ref()?.text.as_deref()?;
        let approved = match (&self.approved, &self.renamed_from) {
            (Some(approved), _) => approved.text.as_deref()?,
            // Only the name has changed.
            (None, Some(_)) => offered,
            (None, None) => "{}",
        };
        Some(diff(approved, offered))
    }

    /// The name by which commands know it.
    pub fn name(&self) -> String {
        format!("{}__{}", self.backend, self.tool)
    }
}

#[cfg(test)]
mod tests;
