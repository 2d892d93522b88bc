//! The stored form of a call that waits for an operator, or has waited.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_store::state::{Entries, Entry, EntryChange, EntryKind, Expected, StateStore};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use upstream::time::Timestamp;

use super::Approvals;

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
    /// The name that the client gives itself.
    pub client: Option<String>,
    /// The effect of the tool: `reads`, `additive`, `idempotent` or `destructive`.
    pub effect: String,
    /// The backend's text about the tool.
    pub description: String,
    /// The line of the file that makes the call wait.
    pub rule: String,
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
    /// The change that has ended it, if one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The SHA-256 hash of the token that the webhook has got.
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
    /// Its client has cancelled it, or has left.
    Cancelled,
    /// Its caller has lost its token or its role.
    Revoked,
    /// Its tool or its backend is not what people were shown any more.
    Changed,
    /// Its gateway has ended.
    Gone,
}

impl ApprovalStatus {
    /// True while something may still happen.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Approved)
    }
}

/// Its name, as it is stored.
impl fmt::Display for ApprovalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
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

    /// The same for a command, which knows the gateways that are [`running`].
    pub fn status_among(&self, running: &BTreeSet<String>) -> ApprovalStatus {
        self.status_at(now(), running.contains(&self.gateway))
    }

    /// Returns the approval after the next step of its gateway; `None` if there is none. `end` is what has ended the wait
    /// there. An approval is used up before the call is made, so that it is made once, and not for a caller that has
    /// left or lost its rights.
    pub(super) fn next(&self, end: Option<ApprovalStatus>, now: i64) -> Option<Self> {
        let with = |status| Self {
            status,
            ..self.clone()
        };
        match (self.status, end) {
            (ApprovalStatus::Waiting, None) => None,
            (ApprovalStatus::Waiting, Some(end)) => Some(self.decided(end, "the gateway", now)),
            // The decision was in time.
            (ApprovalStatus::Approved, None | Some(ApprovalStatus::Expired)) => {
                Some(with(ApprovalStatus::Used))
            }
            (ApprovalStatus::Approved, Some(end)) => Some(with(end)),
            _ => Some(self.clone()),
        }
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

/// An entry that is not older, by the clock of this host, is one of a gateway that runs.
const MAX_ENTRY_AGE: u64 = 5;

/// The time for which a command watches an older entry: a gateway that runs writes it twice meanwhile.
const WATCH_TIME: Duration = Duration::from_secs(7);

/// Finds the gateways that run, of those whose calls wait. An older entry may be that of a host with another clock: it is
/// watched until it changes.
pub async fn running(state: &StateStore) -> BTreeSet<String> {
    let mut changes = state.subscribe();
    let first = Arc::clone(&changes.borrow_and_update());
    let open = read_open(&first);
    let mut unknown: BTreeSet<String> = open.map(|(approval, _)| approval.gateway).collect();
    let mut running = BTreeSet::new();
    let end = tokio::time::Instant::now() + WATCH_TIME;
    let mut known = Arc::clone(&first);
    loop {
        unknown.retain(|gateway| {
            let Some(entry) = known.get(EntryKind::Gateway, gateway) else {
                return false;
            };
            let before = first.get(EntryKind::Gateway, gateway);
            let seen = entry.read::<i64>().unwrap_or_default();
            let is_running = now().abs_diff(seen) <= MAX_ENTRY_AGE
                || before.is_some_and(|before| before.value != entry.value);
            if is_running {
                running.insert(gateway.clone());
            }
            !is_running
        });
        if unknown.is_empty() {
            return running;
        }
        let Ok(Ok(())) = tokio::time::timeout_at(end, changes.changed()).await else {
            return running;
        };
        known = Arc::clone(&changes.borrow_and_update());
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
pub(super) fn store(approval: &Approval, expected: Expected) -> EntryChange {
    EntryChange::store(EntryKind::Approval, approval.id.clone(), approval, expected)
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Interval at which a gateway says that it still runs, while calls wait.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3);

/// Ended approvals are kept for this time, in seconds; events last longer.
const MAX_AGE: i64 = 7 * 86_400;

/// Limit for the ended approvals, against callers that make calls in order to cancel them.
const MAX_ENDED: usize = 1_000;

/// Limit for the entries of one kind that one sweep removes.
const MAX_REMOVED: usize = 1_000;

/// Gateways that were not seen for this time are forgotten, in seconds.
const MAX_GATEWAY_AGE: i64 = 86_400;

impl Approvals {
    /// Keeps the approvals up to date while the gateway runs.
    pub async fn sweep(&self) {
        loop {
            // Without a store the next sweep ends a call that has left.
            let _ = tokio::time::timeout(SWEEP_INTERVAL, self.left.notified()).await;
            self.sweep_once().await;
        }
    }

    async fn sweep_once(&self) {
        let entries = self.state.entries();
        self.seen.update(&entries);
        if !self.parked.lock().is_empty() {
            let seen = seen(&self.gateway, now());
            self.state.request_change(vec![seen]);
        }
        for (approval, entry) in read_open(&entries) {
            let Some(end) = self.end(&approval) else {
                continue;
            };
            let end = approval.decided(end, "the gateway", now());
            let change = store(&end, Expected::Revision(entry.revision));
            // One gateway of several records it.
            if let Ok(true) = self.state.change(vec![change]).await {
                self.receipt(&end);
            }
        }
        self.remove_old(&entries);
    }

    /// The status of an approval, as this gateway sees the one where its call waits.
    pub fn status(&self, approval: &Approval, entries: &Entries) -> ApprovalStatus {
        self.seen.update(entries);
        approval.status_at(now(), self.seen.is_alive(&approval.gateway))
    }

    /// The end of an approval that no call waits for.
    fn end(&self, approval: &Approval) -> Option<ApprovalStatus> {
        if approval.gateway != self.gateway {
            let is_gone = !self.seen.is_alive(&approval.gateway);
            return is_gone.then_some(ApprovalStatus::Gone);
        }
        // Each is in `parked` before it is stored.
        let is_parked = self.parked.lock().contains_key(&approval.id);
        match approval.status_at(now(), true) {
            _ if is_parked => None,
            ApprovalStatus::Expired => Some(ApprovalStatus::Expired),
            _ => Some(ApprovalStatus::Cancelled),
        }
    }

    fn remove_old(&self, entries: &Entries) {
        let now = now();
        let remove = |kind, old: Vec<(&str, &Entry)>| {
            let old = old.into_iter().take(MAX_REMOVED);
            let removed = old.map(|(key, entry)| EntryChange::remove(kind, key, entry));
            let removed: Vec<EntryChange> = removed.collect();
            if !removed.is_empty() {
                self.state.request_change(removed);
            }
        };
        remove(EntryKind::Approval, removable(entries, now));
        // The values are times: of the expiry, and of the last sign of life.
        for (kind, age) in [
            (EntryKind::UsedAnswer, MAX_CLOCK_SKEW),
            (EntryKind::Gateway, MAX_GATEWAY_AGE),
        ] {
            let all = entries.matching(kind, "");
            let old = all.filter(|(_, entry)| now - entry.read().unwrap_or(0) > age);
            remove(kind, old.collect());
        }
    }
}

/// The ended approvals that are too many or too old, the oldest first.
fn removable(entries: &Entries, now: i64) -> Vec<(&str, &Entry)> {
    let all = entries.matching(EntryKind::Approval, "");
    let mut ended: Vec<(&str, &Entry)> = all.filter(|(_, entry)| !is_open(&entry.value)).collect();
    ended.sort_unstable_by_key(|(_, entry)| entry.revision);
    let too_many = ended.len().saturating_sub(MAX_ENDED);
    let is_old = |entry: &Entry| {
        let approval = entry.read::<Approval>();
        approval.is_some_and(|approval| now - approval.created > MAX_AGE)
    };
    let others = ended[too_many..].iter();
    let old = others.take_while(|(_, entry)| is_old(entry)).count();
    ended.truncate(too_many + old);
    ended
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
            client: None,
            effect: String::new(),
            description: String::new(),
            rule: String::new(),
            arguments: r#"{"status":"waiting"}"#.to_owned(),
            hash: String::new(),
            created: 0,
            expires: 10,
            status,
            decided_by: Some(r#""status":"approved""#.to_owned()),
            decided_at: None,
            reason: None,
            token_hash: None,
        }
    }

    #[test]
    fn open_calls_are_told_by_their_text() {
        use ApprovalStatus::{
            Approved, Cancelled, Changed, Expired, Gone, Refused, Revoked, Used, Waiting,
        };
        for status in [
            Waiting, Approved, Used, Refused, Expired, Cancelled, Revoked, Changed, Gone,
        ] {
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

    /// The next state of each state, after each end.
    #[test]
    fn approval_is_used_only_after_it_was_approved_in_time() {
        use ApprovalStatus::{
            Approved, Cancelled, Changed, Expired, Gone, Refused, Revoked, Used, Waiting,
        };
        let next = |status, end| Some(approval(status).next(end, 1)?.status);
        let ends = [Expired, Cancelled, Revoked, Changed, Gone].map(Some);
        for end in ends.into_iter().chain([None]) {
            assert_eq!(next(Waiting, end), end);
            let is_in_time = matches!(end, None | Some(Expired));
            let after = if is_in_time { Some(Used) } else { end };
            assert_eq!(next(Approved, end), after, "{end:?}");
            for status in [Used, Refused, Revoked] {
                assert_eq!(next(status, end), Some(status), "{end:?}");
            }
        }
    }

    fn stored(id: usize, status: ApprovalStatus, created: i64) -> (String, String) {
        let approval = Approval {
            created,
            ..approval(status)
        };
        (id.to_string(), serde_json::to_string(&approval).unwrap())
    }

    #[test]
    fn newest_ended_approvals_of_the_last_week_are_kept() {
        use ApprovalStatus::{Gone, Refused, Used, Waiting};
        let now = 2 * MAX_AGE;
        let ended = (0..MAX_ENDED + 5).map(|id| stored(id, Used, now));
        let open = (9_000..9_050).map(|id| stored(id, Waiting, now));
        let entries = Entries::with_kind(EntryKind::Approval, ended.chain(open));
        let removed: Vec<&str> = removable(&entries, now).iter().map(|(id, _)| *id).collect();
        assert_eq!(removed, ["0", "1", "2", "3", "4"]);

        let ended = [
            stored(1, Refused, 0),
            stored(2, Waiting, 0),
            stored(3, Gone, now),
        ];
        let entries = Entries::with_kind(EntryKind::Approval, ended);
        let removed: Vec<&str> = removable(&entries, now).iter().map(|(id, _)| *id).collect();
        assert_eq!(removed, ["1"]);
    }
}
