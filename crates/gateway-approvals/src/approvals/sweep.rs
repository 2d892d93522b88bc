//! Ends the approvals that no call waits for, and removes old ones.

use std::time::Duration;

use gateway_store::state::{Entries, Entry, EntryChange, EntryKind, Expected};

use super::Approvals;
use super::record::{self, Approval, ApprovalStatus, MAX_CLOCK_SKEW, now};

/// Interval at which a gateway says that it still runs, while calls wait.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3);

/// Ended approvals are kept for this time, in seconds; events last longer.
const MAX_AGE: i64 = 7 * 86_400;

/// Limit for the ended approvals, against callers that make calls in order to cancel them.
const MAX_ENDED: usize = 1_000;

/// Number of approvals that one change removes, and of these changes in one sweep.
const MAX_REMOVED: usize = 100;
const MAX_CHANGES: usize = 20;

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
            let seen = record::seen(&self.gateway, now());
            self.state.request_change(vec![seen]);
        }
        for (approval, entry) in record::read_open(&entries) {
            let Some(end) = self.end(&approval) else {
                continue;
            };
            let end = approval.decided(end, "the gateway", now());
            let change = record::store(&end, Expected::Revision(entry.revision));
            // One gateway of several records it.
            if let Ok(true) = self.state.change(vec![change]).await {
                self.receipt(&end, None);
            }
        }
        self.remove_old(&entries);
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
        let ended = removable(entries, now());
        for ended in ended.chunks(MAX_REMOVED).take(MAX_CHANGES) {
            let removed = ended
                .iter()
                .map(|(id, entry)| EntryChange::remove(EntryKind::Approval, id, entry));
            self.state.request_change(removed.collect());
        }
        let used = entries.matching(EntryKind::UsedAnswer, "");
        let expired = used.filter(|(_, entry)| {
            let expires = entry.read().unwrap_or(0);
            now() - expires > MAX_CLOCK_SKEW
        });
        let expired: Vec<EntryChange> = expired
            .map(|(nonce, entry)| EntryChange::remove(EntryKind::UsedAnswer, nonce, entry))
            .take(MAX_REMOVED)
            .collect();
        if !expired.is_empty() {
            self.state.request_change(expired);
        }
        for (gateway, entry) in entries.matching(EntryKind::Gateway, "") {
            let seen = entry.read().unwrap_or(0);
            if now() - seen > MAX_GATEWAY_AGE {
                let old = EntryChange::remove(EntryKind::Gateway, gateway, entry);
                self.state.request_change(vec![old]);
            }
        }
    }
}

/// The ended approvals that are too many or too old, the oldest first.
fn removable(entries: &Entries, now: i64) -> Vec<(&str, &Entry)> {
    let all = entries.matching(EntryKind::Approval, "");
    let mut ended: Vec<(&str, &Entry)> = all
        .filter(|(_, entry)| !record::is_open(&entry.value))
        .collect();
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

    fn stored(id: usize, status: &str, created: i64) -> (String, String) {
        let value = serde_json::json!({
            "id": id.to_string(), "gateway": "g", "tool": "b__x", "backend": "b", "principal": null,
            "arguments": "{}", "hash": "", "created": created, "expires": created, "status": status,
            "decided_by": null, "decided_at": null,
        });
        (id.to_string(), value.to_string())
    }

    #[test]
    fn newest_ended_approvals_of_the_last_week_are_kept() {
        let now = 2 * MAX_AGE;
        let ended = (0..MAX_ENDED + 5).map(|id| stored(id, "used", now));
        let open = (9_000..9_050).map(|id| stored(id, "waiting", now));
        let entries = Entries::with_kind(EntryKind::Approval, ended.chain(open));
        let removed: Vec<&str> = removable(&entries, now).iter().map(|(id, _)| *id).collect();
        assert_eq!(removed, ["0", "1", "2", "3", "4"]);

        let ended = [
            stored(1, "refused", 0),
            stored(2, "waiting", 0),
            stored(3, "gone", now),
        ];
        let entries = Entries::with_kind(EntryKind::Approval, ended);
        let removed: Vec<&str> = removable(&entries, now).iter().map(|(id, _)| *id).collect();
        assert_eq!(removed, ["1"]);
    }
}
