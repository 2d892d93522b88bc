//! Calls that need a person: the gateway asks the caller's user, or the call waits for an operator. Nothing in the
//! arguments of a call can take the place of either.
//!
//! * [`confirm`]: asks the user; [`park`]: waits for an operator.
//! * [`webhook`]: tells a program of it; [`answer`]: takes the decision of a program or a principal over HTTP.
//! * [`record`]: the stored form of a call that waits; [`sweep`]: ends those whose gateway is gone.

mod answer;
mod confirm;
mod park;
mod record;
mod sweep;
mod webhook;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use hmac_sha256::Hash;
use mcp_core::server::{OriginalRequest, PreviousRounds};
use mcp_core::tool::{Call, ToolError};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use upstream::redact::Redactor;
use upstream::text::{clean, truncate};
use uuid::Uuid;

pub(crate) use self::record::{Approval, ApprovalStatus, now, read, store};
use crate::config::ApprovalConfig;
use crate::events::EventLog;
use crate::roles::{Roles, Rule};
use crate::state::StateStore;

/// Bytes of the arguments that people see.
const MAX_SHOWN_BYTES: usize = 4_000;

/// Limit for the calls whose later rounds need no other decision.
const MAX_DECIDED_CALLS: usize = 1_000;

/// Judges the calls that need a person.
pub(crate) struct Approvals {
    state: Arc<StateStore>,
    log: Arc<EventLog>,
    rules: Mutex<Arc<ApprovalRules>>,
    /// The name of this gateway while it runs.
    gateway: String,
    /// Number of calls that wait for an operator.
    parked: AtomicUsize,
    /// Calls that an operator has approved and that have not ended: a backend may ask their client something.
    decided: Mutex<HashSet<String>>,
}

/// The rules of one configuration.
#[derive(Default)]
pub(crate) struct ApprovalRules {
    pub(crate) roles: Option<Arc<Roles>>,
    pub(crate) config: ApprovalConfig,
}

/// A call that may need a person.
pub(crate) struct GuardedCall<'a> {
    /// The published name of its tool.
    pub(crate) tool: &'a str,
    pub(crate) backend: &'a str,
    pub(crate) arguments: &'a RawValue,
    pub(crate) call: &'a Call,
}

impl GuardedCall<'_> {
    /// The name of the caller's token.
    fn caller(&self) -> Option<&str> {
        let origin = self.call.extension::<OriginalRequest>()?;
        origin.principal.as_ref().map(|principal| &*principal.name)
    }

    /// Identifies the tool and the exact arguments, in hexadecimal digits.
    fn hash(&self) -> String {
        let text = format!("{}\n{}", self.tool, self.arguments.get());
        let digits = Hash::hash(text.as_bytes());
        digits.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Identifies the call between its rounds.
    fn round_key(&self) -> String {
        format!("{} {}", self.hash(), self.caller().unwrap_or_default())
    }

    /// The arguments for people: without secrets and hidden characters, and not longer than fits.
    fn shown_arguments(&self) -> String {
        let text = match serde_json::from_str(self.arguments.get()) {
            Ok(mut value) => {
                Redactor::new(true).json(&mut value);
                serde_json::to_string_pretty(&value).unwrap_or_default()
            }
            Err(_) => String::new(),
        };
        truncate(&clean(&text), MAX_SHOWN_BYTES)
    }
}

impl Approvals {
    pub(crate) fn new(state: Arc<StateStore>, log: Arc<EventLog>) -> Self {
        Self {
            state,
            log,
            rules: Mutex::default(),
            gateway: Uuid::new_v4().simple().to_string(),
            parked: AtomicUsize::new(0),
            decided: Mutex::default(),
        }
    }

    /// Follows a change of the configuration.
    pub(crate) fn set_rules(&self, rules: ApprovalRules) {
        *self.rules.lock() = Arc::new(rules);
    }

    fn rules(&self) -> Arc<ApprovalRules> {
        Arc::clone(&self.rules.lock())
    }

    /// True if calls of this tool may wait for an operator.
    pub(crate) fn may_wait(&self, tool: &str) -> bool {
        let rules = self.rules();
        let roles = rules.roles.iter().flat_map(|roles| &roles.roles);
        let of_roles = roles.flat_map(|role| &role.approve);
        of_roles
            .chain(&rules.config.approve)
            .any(|rule| rule.matches(tool))
    }

    /// Completes when the call may be made: at once if no rule is about it.
    ///
    /// # Errors
    /// A person has not agreed, and nothing was done; or the question to the client, which ends this round.
    pub(crate) async fn admit(&self, guarded: &GuardedCall<'_>) -> Result<(), ToolError> {
        let rules = self.rules();
        let origin = guarded.call.extension::<OriginalRequest>();
        let principal = origin.and_then(|origin| origin.principal.as_deref());
        let role = rules.roles.as_ref().map(|roles| roles.role(principal));
        let find = |of_role: Option<&[Rule]>, of_all: &[Rule]| {
            let mut all = of_role.unwrap_or_default().iter().chain(of_all);
            all.find(|rule| rule.matches(guarded.tool)).cloned()
        };
        let confirm = find(role.map(|role| &*role.confirm), &rules.config.confirm);
        let approve = find(role.map(|role| &*role.approve), &rules.config.approve);
        if confirm.is_none() && approve.is_none() {
            return Ok(());
        }
        if confirm.is_some() {
            self.confirm(guarded, rules.config.timeout).await?;
        }
        if let Some(rule) = approve
            && !self.is_decided(guarded)
        {
            // Boxed, to keep the future of other calls small.
            Box::pin(self.wait_for_operator(guarded, &rule, rules.config.timeout)).await?;
            let mut decided = self.decided.lock();
            if decided.len() < MAX_DECIDED_CALLS {
                decided.insert(guarded.round_key());
            }
        }
        Ok(())
    }

    /// True for a later round of a call that was approved.
    fn is_decided(&self, guarded: &GuardedCall<'_>) -> bool {
        let round = guarded.call.extension::<PreviousRounds>();
        let is_later = round.is_some_and(|round| !round.memo.is_null());
        is_later && self.decided.lock().contains(&guarded.round_key())
    }

    /// Notes that a call has ended: the same call needs another decision.
    pub(crate) fn ended(&self, guarded: &GuardedCall<'_>) {
        let mut decided = self.decided.lock();
        if !decided.is_empty() {
            decided.remove(&guarded.round_key());
        }
    }
}
