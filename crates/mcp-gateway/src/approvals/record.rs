//! The stored form of a call that waits for an operator, or has waited.

use serde::{Deserialize, Serialize};
use upstream::time::Timestamp;

use crate::state::{Entries, Entry, EntryChange, EntryKind, Expected};

/// A gateway that was not seen for this time is gone, in seconds.
const GATEWAY_TIMEOUT: i64 = 12;

/// A call that waits for an operator, or has waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Approval {
    pub(crate) id: String,
    /// The gateway where it waits.
    pub(crate) gateway: String,
    pub(crate) tool: String,
    pub(crate) backend: String,
    /// The caller.
    pub(crate) principal: Option<String>,
    /// For people: without secrets, and cut.
    pub(crate) arguments: String,
    /// Of the tool and the exact arguments.
    pub(crate) hash: String,
    /// Seconds since 1970.
    pub(crate) created: i64,
    pub(crate) expires: i64,
    pub(crate) status: ApprovalStatus,
    pub(crate) decided_by: Option<String>,
    pub(crate) decided_at: Option<i64>,
    /// The SHA-256 hash of the token that the webhook has got.
    #[serde(default)]
    pub(super) token_hash: Option<String>,
}

/// The state of a call that needs an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ApprovalStatus {
    Waiting,
    Approved,
    /// Approved, and made.
    Used,
    Refused,
    Expired,
    /// Its client has cancelled it.
    Cancelled,
    /// Its gateway has ended.
    Gone,
}

impl ApprovalStatus {
    pub(crate) fn name(self) -> &'static str {
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
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Approved)
    }
}

impl Approval {
    /// The status at this time: that of a call whose gateway has ended is not stored yet.
    pub(crate) fn status_at(&self, now: i64, entries: &Entries) -> ApprovalStatus {
        match self.status {
            status if !status.is_open() => status,
            _ if !is_alive(&self.gateway, now, entries) => ApprovalStatus::Gone,
            ApprovalStatus::Waiting if now >= self.expires => ApprovalStatus::Expired,
            status => status,
        }
    }

    /// Returns the approval after a decision.
    pub(crate) fn decided(&self, status: ApprovalStatus, by: &str, now: i64) -> Self {
        Self {
            status,
            decided_by: Some(by.to_owned()),
            decided_at: Some(now),
            ..self.clone()
        }
    }
}

/// True if a gateway was seen lately.
fn is_alive(gateway: &str, now: i64, entries: &Entries) -> bool {
    let seen = entries.get(EntryKind::Gateway, gateway);
    let seen = seen.and_then(|entry| entry.value.parse::<i64>().ok());
    seen.is_some_and(|seen| now - seen <= GATEWAY_TIMEOUT)
}

/// The change that says that a gateway was seen now.
pub(super) fn seen(gateway: &str, now: i64) -> EntryChange {
    EntryChange {
        kind: EntryKind::Gateway,
        key: gateway.to_owned(),
        expected: Expected::Any,
        value: Some(now.to_string().into()),
    }
}

/// Reads all calls, the oldest first.
pub(crate) fn read(entries: &Entries) -> Vec<(Approval, Entry)> {
    let all = entries.matching(EntryKind::Approval, "");
    let all = all
        .filter_map(|(_, entry)| Some((serde_json::from_str(&entry.value).ok()?, entry.clone())));
    let mut all: Vec<(Approval, Entry)> = all.collect();
    all.sort_by(|(one, _), (other, _)| (one.created, &one.id).cmp(&(other.created, &other.id)));
    all
}

/// The change that stores a call in the place of `expected`.
pub(crate) fn store(approval: &Approval, expected: Expected) -> EntryChange {
    EntryChange {
        kind: EntryKind::Approval,
        key: approval.id.clone(),
        expected,
        value: serde_json::to_string(approval).ok().map(Into::into),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    Timestamp::now().as_second()
}
