//! A call that waits for an operator.

use std::sync::Arc;
use std::time::Duration;

use gateway_access::Rule;
use gateway_store::events::{Event, EventStatus, kind};
use gateway_store::state::{Entry, EntryKind, Expected};
use mcp_core::tool::{ToolError, ToolErrorKind};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};
use upstream::time::rfc3339;
use uuid::Uuid;

use super::arguments::ShownArguments;
use super::record::{self, Approval, ApprovalStatus, now};
use super::webhook::Webhook;
use super::{Approvals, GuardedCall, ParkedCall};

/// Limit for the calls that wait at this gateway.
const MAX_PARKED_CALLS: usize = 100;

/// Limit for those of one caller.
const MAX_PARKED_CALLS_OF_CALLER: usize = 10;

/// Interval of the progress that keeps clients from giving up.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Timeout of the call after the decision.
pub(super) const TIME_AFTER_DECISION: Duration = Duration::from_secs(60);

impl Approvals {
    /// Returns an error unless an operator approves this call in time.
    pub(super) async fn wait_for_operator(
        &self,
        guarded: &GuardedCall<'_>,
        shown: ShownArguments,
        rule: &Rule,
        timeout: Duration,
    ) -> Result<(), ToolError> {
        let created = now();
        let webhook = self.rules().config.webhook.clone().map(Webhook::new);
        let approval = Approval {
            id: Uuid::new_v4().simple().to_string(),
            gateway: self.gateway.clone(),
            tool: guarded.tool.to_owned(),
            backend: guarded.backend.to_owned(),
            principal: guarded.caller().map(str::to_owned),
            arguments: shown.text,
            hash: shown.hash,
            created,
            expires: created.saturating_add(timeout.as_secs().try_into().unwrap_or(i64::MAX)),
            status: ApprovalStatus::Waiting,
            decided_by: None,
            decided_at: None,
            token_hash: webhook.as_ref().map(Webhook::token_hash),
        };
        let parked = self.park(approval, shown.whole)?;
        let stored = vec![
            record::store(&parked.approval, Expected::Missing),
            record::seen(&self.gateway, created),
        ];
        if !matches!(self.state.change(stored).await, Ok(true)) {
            return Err(ToolError::unavailable(format!(
                "{} waits for an operator, and the gateway cannot store that now. Nothing was done; try again later.",
                guarded.tool
            )));
        }
        self.receipt(&parked.approval, Some(rule));
        // Ends with this call.
        let _webhook = webhook.map(|webhook| webhook.send(&parked.approval));
        guarded.call.extend_timeout(timeout + TIME_AFTER_DECISION);
        guarded.call.continue_as_task().await;
        let end = self.wait(&parked, guarded, timeout).await;
        self.finish(parked, end, guarded.tool)
    }

    fn park(&self, approval: Approval, whole: Option<String>) -> Result<Parked<'_>, ToolError> {
        let too_many = || {
            ToolError::unavailable(format!(
                "Too many calls wait for an operator. {} was not called; try again later.",
                approval.tool
            ))
        };
        let entries = self.state.entries();
        let elsewhere = record::read_open(&entries);
        let elsewhere = elsewhere.filter(|(other, _)| {
            other.gateway != self.gateway && other.principal == approval.principal
        });
        let mut parked = self.parked.lock();
        let here = parked
            .values()
            .filter(|call| call.principal == approval.principal);
        let of_caller = here.count() + elsewhere.count();
        if of_caller >= MAX_PARKED_CALLS_OF_CALLER || parked.len() >= MAX_PARKED_CALLS {
            return Err(too_many());
        }
        let principal = approval.principal.clone();
        parked.insert(approval.id.clone(), ParkedCall { principal, whole });
        drop(parked);
        Ok(Parked {
            approvals: self,
            approval,
            is_open: true,
        })
    }

    /// Waits for the end of an approval, which is stored then.
    async fn wait(&self, parked: &Parked<'_>, guarded: &GuardedCall<'_>, timeout: Duration) -> End {
        let mut entries = self.state.subscribe();
        let expiry = tokio::time::sleep(timeout);
        tokio::pin!(expiry);
        let mut tick = tokio::time::interval_at(Instant::now(), PROGRESS_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut progress = 0.0;
        let first = &parked.approval;
        let until = rfc3339(first.expires);
        loop {
            let wanted = tokio::select! {
                changed = entries.changed() => match changed {
                    Ok(()) => None,
                    // The gateway stops.
                    Err(_) => Some(ApprovalStatus::Gone),
                },
                () = guarded.abandoned() => Some(ApprovalStatus::Cancelled),
                () = self.stopping.cancelled() => Some(ApprovalStatus::Gone),
                () = &mut expiry => Some(ApprovalStatus::Expired),
                _ = tick.tick() => {
                    progress += 1.0;
                    let text = format!("waiting for an operator until {until}; approval {}", first.id);
                    guarded.call.progress(progress, None, &text);
                    None
                }
            };
            // Each time, also when the decision was faster. Also notices within a tick that the caller has lost its role.
            let wanted = self.lost(guarded).or(wanted);
            let known = Arc::clone(&entries.borrow_and_update());
            let entry = known.get(EntryKind::Approval, &first.id);
            let stored = entry.and_then(Entry::read::<Approval>);
            let (Some(stored), Some(entry)) = (stored, entry) else {
                return End::Stored(first.decided(ApprovalStatus::Gone, "the store", now()));
            };
            let next = match (stored.status, wanted) {
                (ApprovalStatus::Waiting, None) => continue,
                (ApprovalStatus::Waiting, Some(end)) => stored.decided(end, "the gateway", now()),
                // Used up before the call is made, so that it is made once. Not for a caller that has left.
                (ApprovalStatus::Approved, None | Some(ApprovalStatus::Expired)) => Approval {
                    status: ApprovalStatus::Used,
                    ..stored
                },
                (ApprovalStatus::Approved, Some(end)) => Approval {
                    status: end,
                    ..stored
                },
                _ => return End::Stored(stored),
            };
            // If an operator was faster, that decision is read in the next round.
            match self
                .state
                .change(vec![record::store(&next, Expected::entry(Some(entry)))])
                .await
            {
                Ok(true) => return End::Stored(next),
                Ok(false) if wanted.is_none() || !expiry.is_elapsed() => {}
                Ok(false) => {
                    // The decision may not be read yet.
                    expiry
                        .as_mut()
                        .reset(Instant::now() + Duration::from_millis(50));
                }
                Err(_) => {
                    let end = wanted.unwrap_or(ApprovalStatus::Gone);
                    let by = "the gateway, without its store";
                    return End::NotStored(next.decided(end, by, now()));
                }
            }
        }
    }

    /// Ends the wait. Returns an error unless the call was approved.
    fn finish(&self, mut parked: Parked<'_>, end: End, tool: &str) -> Result<(), ToolError> {
        let end = match end {
            End::Stored(end) => {
                parked.is_open = false;
                self.receipt(&end, None);
                end
            }
            End::NotStored(end) => end,
        };
        let refused = |text: &str| {
            let id = &end.id;
            Err(ToolError::forbidden(format!(
                "{tool} needs an operator, {text} (approval {id}). Nothing was done."
            )))
        };
        match end.status {
            ApprovalStatus::Used => Ok(()),
            ApprovalStatus::Refused => refused("who has refused this call"),
            ApprovalStatus::Cancelled => Err(cancelled(tool)),
            ApprovalStatus::Gone => {
                refused("and the gateway stops or has lost this call; call again later")
            }
            _ => refused("and no operator has decided in time"),
        }
    }

    /// Records the state of an approval.
    pub(super) fn receipt(&self, approval: &Approval, rule: Option<&Rule>) {
        let status = match approval.status {
            ApprovalStatus::Waiting => EventStatus::Pending,
            ApprovalStatus::Used | ApprovalStatus::Approved => EventStatus::Success,
            _ => EventStatus::Failure,
        };
        let mut facts = json!({
            "approval": approval.id,
            "tool_name": approval.tool,
            "backend": approval.backend,
            "principal": approval.principal,
            "outcome": approval.status.name(),
            "hash": approval.hash,
            "expires": rfc3339(approval.expires),
        });
        if let Some(by) = &approval.decided_by {
            facts["decided_by"] = json!(by);
            facts["decided_at"] = json!(approval.decided_at.map(rfc3339));
        }
        if let Some(rule) = rule {
            facts["rule"] = json!(rule.to_string());
        }
        self.log.record(Event::new(kind::APPROVAL, status, facts));
    }
}

/// The error of a call that its client has cancelled while it waited.
pub(super) fn cancelled(tool: &str) -> ToolError {
    let text = format!("{tool} was cancelled while it waited for a person. Nothing was done.");
    ToolError::new(ToolErrorKind::Cancelled, text)
}

/// The end of a wait.
enum End {
    Stored(Approval),
    /// The sweep stores it later, and writes its receipt then.
    NotStored(Approval),
}

/// A call that waits. When it is dropped, it has ended.
struct Parked<'a> {
    approvals: &'a Approvals,
    approval: Approval,
    /// True until its end is stored.
    is_open: bool,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let Approvals { parked, left, .. } = self.approvals;
        parked.lock().remove(&self.approval.id);
        if self.is_open {
            // Its client has left: the sweep ends it.
            left.notify_one();
        }
    }
}
