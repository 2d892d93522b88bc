//! The stored form of a call that waits for an operator, or has waited.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_store::state::{Entries, Entry, EntryChange, EntryKind, Expected};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use upstream::time::Timestamp;

/// A gateway whose entry has not changed for this time is gone.
const GATEWAY_TIMEOUT: Duration = Duration::from_secs(12);

/// The difference between the clocks of two hosts that is assumed, in seconds.
pub(super) const MAX_CLOCK_SKEW: i64 = 300;

/// A call that waits for an operator, or has waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Names it in commands and over HTTP.
    pub id: String,
    /// The gateway where it waits.
    pub gateway: String,
    /// The published name.
    pub tool: String,
    /// The key of the backend.
    pub backend: String,
    /// The caller.
    pub principal: Option<String>,
    /// For people: without secrets, and cut.
    pub arguments: String,
    /// Of the tool and the exact arguments.
    pub hash: String,
    /// Seconds since 1970.
    pub created: i64,
    /// The end of the wait, in seconds since 1970.
    pub expires: i64,
    /// Its state, as it is stored.
    pub status: ApprovalStatus,
    /// The name of the person or program that has decided.
    pub decided_by: Option<String>,
    /// The time of the decision, in seconds since 1970.
    pub decided_at: Option<i64>,
    /// The SHA-256 hash of the token that the webhook has got.
    #[serde(default)]
    pub(super) token_hash: Option<String>,
}

/// The state of a call that needs an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalStatus {
    /// Waits for a decision.
    Waiting,
    /// Approved, and not made yet.
    Approved,
    /// Approved, and made.
    Used,
    /// Refused.
    Refused,
    /// The time for a decision is over.
    Expired,
    /// Its client has cancelled it.
    Cancelled,
    /// Its gateway has ended.
    Gone,
}

impl ApprovalStatus {
    /// Returns its name, as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Used => "used",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Gone => "gone",
        }
    }

    /// True while something may still happen.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Approved)
    }
}

impl Approval {
    /// The status at this time: that of a call whose gateway has ended is not stored yet.
    pub fn status_at(&self, now: i64, is_alive: bool) -> ApprovalStatus {
        match self.status {
            status if !status.is_open() => status,
            _ if !is_alive => ApprovalStatus::Gone,
            ApprovalStatus::Waiting if now >= self.expires => ApprovalStatus::Expired,
            status => status,
        }
    }

    /// The same for a command, which sees the entry of the gateway once only.
    pub fn status_in(&self, entries: &Entries) -> ApprovalStatus {
        let seen = entries.get(EntryKind::Gateway, &self.gateway);
        let seen = seen.and_then(|entry| entry.read::<i64>());
        let is_alive =
            seen.is_some_and(|seen| now().abs_diff(seen) <= MAX_CLOCK_SKEW.unsigned_abs());
        self.status_at(now(), is_alive)
    }

    /// Returns the approval after a decision.
    pub fn decided(&self, status: ApprovalStatus, by: &str, now: i64) -> Self {
        Self {
            status,
            decided_by: Some(by.to_owned()),
            decided_at: Some(now),
            ..self.clone()
        }
    }
}

/// The entries of gateways, and when each has changed by the clock of this process: the clocks of their hosts may
/// differ.
#[derive(Default)]
pub(super) struct SeenGateways(Mutex<HashMap<String, (Arc<str>, Instant)>>);

impl SeenGateways {
    /// Notes the entries of now, and forgets gateways that have none.
    pub(super) fn update(&self, entries: &Entries) {
        let mut seen = self.0.lock();
        seen.retain(|gateway, _| entries.get(EntryKind::Gateway, gateway).is_some());
        for (gateway, entry) in entries.matching(EntryKind::Gateway, "") {
            let is_same = |(value, _): &(Arc<str>, Instant)| *value == entry.value;
            if !seen.get(gateway).is_some_and(is_same) {
                let changed = (Arc::clone(&entry.value), Instant::now());
                seen.insert(gateway.to_owned(), changed);
            }
        }
    }

    /// True if the entry of a gateway has changed lately.
    pub(super) fn is_alive(&self, gateway: &str) -> bool {
        let seen = self.0.lock();
        seen.get(gateway)
            .is_some_and(|(_, changed)| changed.elapsed() <= GATEWAY_TIMEOUT)
    }
}

/// The change that says that a gateway was seen now.
pub(super) fn seen(gateway: &str, now: i64) -> EntryChange {
    EntryChange::store(EntryKind::Gateway, gateway.to_owned(), &now, Expected::Any)
}

/// Reads all calls, the oldest first.
pub fn read(entries: &Entries) -> Vec<(Approval, Entry)> {
    let all = entries.matching(EntryKind::Approval, "");
    let all = all.filter_map(|(_, entry)| Some((entry.read()?, entry.clone())));
    let mut all: Vec<(Approval, Entry)> = all.collect();
    all.sort_by(|(one, _), (other, _)| (one.created, &one.id).cmp(&(other.created, &other.id)));
    all
}

/// Reads the calls that have not ended; does not parse the others.
pub(super) fn read_open(entries: &Entries) -> impl Iterator<Item = (Approval, &Entry)> {
    let all = entries.matching(EntryKind::Approval, "");
    let open = all.filter(|(_, entry)| is_open(&entry.value));
    open.filter_map(|(_, entry)| Some((entry.read()?, entry)))
}

/// True if the stored form is that of a call that has not ended. In a text quotes have a backslash before them, so
/// arguments cannot look like this.
pub(super) fn is_open(value: &str) -> bool {
    value.contains(r#""status":"waiting""#) || value.contains(r#""status":"approved""#)
}

/// The change that stores a call in the place of `expected`.
pub fn store(approval: &Approval, expected: Expected) -> EntryChange {
    EntryChange::store(EntryKind::Approval, approval.id.clone(), approval, expected)
}

/// Seconds since 1970.
pub fn now() -> i64 {
    Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(status: ApprovalStatus) -> Approval {
        Approval {
            id: "1".to_owned(),
            gateway: "g".to_owned(),
            tool: "b__x".to_owned(),
            backend: "b".to_owned(),
            principal: None,
            arguments: r#"{"status":"waiting"}"#.to_owned(),
            hash: String::new(),
            created: 0,
            expires: 10,
            status,
            decided_by: Some(r#""status":"approved""#.to_owned()),
            decided_at: None,
            token_hash: None,
        }
    }

    #[test]
    fn open_calls_are_told_by_their_text() {
        use ApprovalStatus::{Approved, Cancelled, Expired, Gone, Refused, Used, Waiting};
        for status in [Waiting, Approved, Used, Refused, Expired, Cancelled, Gone] {
            let change = store(&approval(status), Expected::Any);
            let value = change.value.unwrap();
            assert_eq!(is_open(&value), status.is_open(), "{value}");
        }
    }

    #[test]
    fn gateway_lives_while_its_entry_changes_whatever_its_clock_says() {
        let entries = |seen: &str| {
            Entries::with_kind(EntryKind::Gateway, [("g".to_owned(), seen.to_owned())])
        };
        let seen = SeenGateways::default();
        assert!(!seen.is_alive("g"));
        seen.update(&entries("5"));
        assert!(seen.is_alive("g"));
        let long_ago = Instant::now().checked_sub(2 * GATEWAY_TIMEOUT).unwrap();
        seen.0.lock().get_mut("g").unwrap().1 = long_ago;
        seen.update(&entries("5"));
        assert!(!seen.is_alive("g"));
        seen.update(&entries("8"));
        assert!(seen.is_alive("g"));
    }

    #[test]
    fn call_of_a_gateway_that_is_gone_has_no_other_end() {
        let waiting = approval(ApprovalStatus::Waiting);
        assert_eq!(waiting.status_at(1, true), ApprovalStatus::Waiting);
        assert_eq!(waiting.status_at(10, true), ApprovalStatus::Expired);
        assert_eq!(waiting.status_at(1, false), ApprovalStatus::Gone);
        let used = approval(ApprovalStatus::Used);
        assert_eq!(used.status_at(10, false), ApprovalStatus::Used);
    }
}
