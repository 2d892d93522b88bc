//! Calls that need a person: the gateway asks the caller's user, or the call waits for an operator. Nothing in the
//! arguments of a call can take the place of either.
//!
//! * [`arguments`]: the arguments as people see them; calls whose arguments cannot be shown are refused.
//! * [`config`]: the settings. [`confirm`]: asks the user; [`park`]: waits for an operator.
//! * [`webhook`]: tells a program of it; [`answer`]: takes the decision of a program or a principal over HTTP.
//! * [`rounds`]: facts between the rounds of one call.
//! * [`record`]: the stored form of a call that waits; [`sweep`]: ends those whose gateway is gone.

mod answer;
mod arguments;
mod config;
mod confirm;
mod park;
mod record;
mod rounds;
mod sweep;
mod webhook;

use std::collections::HashMap;
use std::sync::Arc;

use gateway_access::{Admission, Roles, Rule};
use gateway_store::events::EventLog;
use gateway_store::state::StateStore;
use mcp_core::server::{OriginalRequest, PreviousRounds};
use mcp_core::tool::{Call, Effect, ToolError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::answer::{Answered, MAX_DECISION_DELAY};
use self::arguments::ShownArguments;
pub use self::config::ApprovalConfig;
pub use self::confirm::is_question;
use self::record::SeenGateways;
pub use self::record::{Approval, ApprovalStatus, now, read, store};
use self::rounds::Rounds;

/// The member of the state between two rounds that names a call to which people have agreed.
const AGREED: &str = "agreed";

/// Judges the calls that need a person.
pub struct Approvals {
    state: Arc<StateStore>,
    log: Arc<EventLog>,
    rules: Mutex<Arc<ApprovalRules>>,
    /// The name of this gateway while it runs.
    gateway: String,
    /// The calls that wait for an operator, by the id of their approval.
    parked: Mutex<HashMap<String, ParkedCall>>,
    /// Notified when one of them has left without an end that is stored.
    left: Notify,
    /// Cancelled when the gateway stops: no call that waits is made then.
    stopping: CancellationToken,
    rounds: Rounds,
    seen: SeenGateways,
}

/// A call that waits at this gateway.
struct ParkedCall {
    /// Its caller.
    principal: Option<String>,
    /// Its arguments with their hidden values, if it has any.
    whole: Option<String>,
}

/// The rules of one configuration.
#[derive(Default)]
pub struct ApprovalRules {
    /// The roles; `None` if every caller may use everything.
    pub roles: Option<Arc<Roles>>,
    /// Judges calls again when a person has agreed; `None` without roles and views.
    pub admission: Option<Arc<Admission>>,
    /// The rules for all callers, and the settings.
    pub config: ApprovalConfig,
}

/// A call that may need a person.
pub struct GuardedCall<'a> {
    /// The published name of its tool.
    pub tool: &'a str,
    /// The key of its backend.
    pub backend: &'a str,
    /// The effect of its tool.
    pub effect: Effect,
    /// The JSON of its arguments.
    pub arguments: &'a str,
    /// The call itself.
    pub call: &'a Call,
}

impl GuardedCall<'_> {
    fn origin(&self) -> Option<&OriginalRequest> {
        self.call.extension()
    }

    /// The name of the caller's token.
    fn caller(&self) -> Option<&str> {
        let principal = self.origin()?.principal.as_ref();
        principal.map(|principal| &*principal.name)
    }

    /// The tokens that are cancelled when its client has left, and when the client's bearer token is revoked.
    fn ends(&self) -> [Option<&CancellationToken>; 2] {
        let origin = self.origin();
        [
            origin.and_then(|origin| origin.left.as_deref()),
            origin.and_then(|origin| origin.revoked.as_deref()),
        ]
    }

    /// Completes when no client may have the result any more: the call is cancelled, or its client has left in any era,
    /// or has lost its token.
    async fn abandoned(&self) {
        let ended = async |token: Option<&CancellationToken>| match token {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        };
        let [left, revoked] = self.ends();
        tokio::select! {
            () = self.call.cancelled() => {}
            () = ended(left) => {}
            () = ended(revoked) => {}
        }
    }

    fn is_abandoned(&self) -> bool {
        let ends = self.ends().into_iter().flatten();
        self.call.is_cancelled() || ends.into_iter().any(CancellationToken::is_cancelled)
    }

    /// Identifies the call between its rounds.
    fn round_key(&self, shown: &ShownArguments) -> String {
        format!("{} {}", shown.hash, self.caller().unwrap_or_default())
    }
}

/// A call that may be made.
pub struct Admitted<'a> {
    approvals: &'a Approvals,
    /// Its id and key, if people have agreed to it.
    agreed: Option<(String, String)>,
}

impl Admitted<'_> {
    /// The id of the agreement, for the state between two rounds.
    pub fn id(&self) -> Option<String> {
        self.agreed.as_ref().map(|(id, _)| id.clone())
    }

    /// Keeps the agreement for the next round: the backend asks the client something.
    pub fn keep(self) {
        if let Some((id, key)) = self.agreed {
            self.approvals.rounds.keep(id, key);
        }
    }
}

impl Approvals {
    /// Keeps the calls that wait in `state`, and records them in `log`.
    pub fn new(state: Arc<StateStore>, log: Arc<EventLog>) -> Self {
        Self {
            state,
            log,
            rules: Mutex::default(),
            gateway: Uuid::new_v4().simple().to_string(),
            parked: Mutex::default(),
            left: Notify::new(),
            stopping: CancellationToken::new(),
            rounds: Rounds::default(),
            seen: SeenGateways::default(),
        }
    }

    /// Follows a change of the configuration.
    pub fn set_rules(&self, rules: ApprovalRules) {
        *self.rules.lock() = Arc::new(rules);
    }

    /// Ends the calls that wait: the gateway stops.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// The end of a call that must not be made any more, whatever a person says; `None` if it may.
    fn lost(&self, guarded: &GuardedCall<'_>) -> Option<ApprovalStatus> {
        let call = guarded.call;
        if self.stopping.is_cancelled() || call.is_cancelled() && call.is_closing() {
            return Some(ApprovalStatus::Gone);
        }
        let is_allowed = || {
            let Some(origin) = guarded.origin() else {
                return true;
            };
            match &self.rules().admission {
                None => origin.view.is_none(),
                Some(admission) => {
                    let GuardedCall { tool, effect, .. } = *guarded;
                    admission.still_allows(origin, tool, effect, guarded.arguments)
                }
            }
        };
        (guarded.is_abandoned() || !is_allowed()).then_some(ApprovalStatus::Cancelled)
    }

    fn rules(&self) -> Arc<ApprovalRules> {
        Arc::clone(&self.rules.lock())
    }

    /// True if calls of this tool may wait for an operator.
    pub fn may_wait(&self, tool: &str) -> bool {
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
    pub async fn admit(&self, guarded: &GuardedCall<'_>) -> Result<Admitted<'_>, ToolError> {
        let rules = self.rules();
        let principal = guarded
            .origin()
            .and_then(|origin| origin.principal.as_deref());
        let role = rules.roles.as_ref().map(|roles| roles.role(principal));
        let find = |of_role: Option<&[Rule]>, of_all: &[Rule]| {
            let mut all = of_role.unwrap_or_default().iter().chain(of_all);
            all.find(|rule| rule.matches(guarded.tool)).cloned()
        };
        let confirm = find(role.map(|role| &*role.confirm), &rules.config.confirm);
        let approve = find(role.map(|role| &*role.approve), &rules.config.approve);
        if confirm.is_none() && approve.is_none() {
            return Ok(Admitted {
                approvals: self,
                agreed: None,
            });
        }
        let shown = ShownArguments::read(guarded.tool, guarded.arguments).map_err(|reason| {
            ToolError::forbidden(format!(
                "{} needs a person, who cannot be shown these arguments: {reason}. Nothing was done.",
                guarded.tool
            ))
        })?;
        let key = guarded.round_key(&shown);
        if !self.is_agreed(guarded, &key) {
            if confirm.is_some() {
                self.confirm(guarded, &shown, rules.config.timeout).await?;
            }
            if let Some(rule) = approve {
                // Boxed, to keep the future of other calls small.
                let wait = self.wait_for_operator(guarded, shown, &rule, rules.config.timeout);
                Box::pin(wait).await?;
            }
        }
        let id = Uuid::new_v4().simple().to_string();
        Ok(Admitted {
            approvals: self,
            agreed: Some((id, key)),
        })
    }

    /// True for a later round of a call to which people have agreed. Each round needs the id of the one before.
    fn is_agreed(&self, guarded: &GuardedCall<'_>, key: &str) -> bool {
        let round = guarded.call.extension::<PreviousRounds>();
        let id = round.and_then(|round| round.memo[AGREED].as_str());
        id.is_some_and(|id| self.rounds.take(id, key))
    }
}
