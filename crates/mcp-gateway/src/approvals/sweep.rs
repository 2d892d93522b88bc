//! Ends the approvals of gateways that are gone, and removes old ones.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Approvals;
use super::record::{self, Approval, ApprovalStatus, now};
use crate::state::{EntryChange, EntryKind, Expected};

/// Interval at which a gateway says that it still runs, while calls wait.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3);

/// Ended approvals are kept for this time, in seconds; events last longer.
const MAX_AGE: i64 = 7 * 86_400;

/// Gateways that were not seen for this time are forgotten, in seconds.
const MAX_GATEWAY_AGE: i64 = 86_400;

impl Approvals {
    /// Keeps the approvals up to date while the gateway runs.
    pub(crate) async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            self.sweep_once().await;
        }
    }

    async fn sweep_once(&self) {
        let (entries, now) = (self.state.entries(), now());
        if self.parked.load(Ordering::Relaxed) > 0 {
            self.state
                .request_change(vec![record::seen(&self.gateway, now)]);
        }
        let remove = |kind, key: &str, revision| EntryChange {
            kind,
            key: key.to_owned(),
            expected: Expected::Revision(revision),
            value: None,
        };
        for (approval, entry) in record::read(&entries) {
            let expected = Expected::Revision(entry.revision);
            let is_open = approval.status.is_open();
            let is_other = approval.gateway != self.gateway;
            if is_open && is_other && approval.status_at(now, &entries) == ApprovalStatus::Gone {
                let gone = Approval {
                    status: ApprovalStatus::Gone,
                    ..approval
                };
                let change = vec![record::store(&gone, expected)];
                // One gateway of several records it.
                if let Ok(true) = self.state.change(change).await {
                    self.receipt(&gone, None);
                }
            } else if !is_open && now - approval.created > MAX_AGE {
                let old = remove(EntryKind::Approval, &approval.id, entry.revision);
                self.state.request_change(vec![old]);
            }
        }
        for (gateway, entry) in entries.matching(EntryKind::Gateway, "") {
            let seen = entry.value.parse().unwrap_or(0);
            if now - seen > MAX_GATEWAY_AGE {
                let old = remove(EntryKind::Gateway, gateway, entry.revision);
                self.state.request_change(vec![old]);
            }
        }
    }
}
