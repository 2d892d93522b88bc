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

use gateway_access::{Roles, Rule};
use gateway_store::events::EventLog;
use gateway_store::state::StateStore;
use mcp_core::server::{OriginalRequest, PreviousRounds};
use mcp_core::tool::{Call, ToolError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

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
    /// The calls that wait for an operator, by the id of their approval, and their callers.
    parked: Mutex<HashMap<String, Option<String>>>,
    /// Notified when one of them has left without an end that is stored.
    left: Notify,
    rounds: Rounds,
    seen: SeenGateways,
}

/// The rules of one configuration.
#[derive(Default)]
pub struct ApprovalRules {
    /// The roles; `None` if every caller may use everything.
    pub roles: Option<Arc<Roles>>,
    /// The rules for all callers, and the settings.
    pub config: ApprovalConfig,
}

/// A call that may need a person.
pub struct GuardedCall<'a> {
    /// The published name of its tool.
    pub tool: &'a str,
    /// The key of its backend.
    pub backend: &'a str,
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

    /// Completes when the caller's token is revoked.
    async fn revoked(&self) {
        match self.origin().and_then(|origin| origin.revoked.as_ref()) {
            Some(revoked) => revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn is_revoked(&self) -> bool {
        let revoked = self.origin().and_then(|origin| origin.revoked.as_ref());
        revoked.is_some_and(|revoked| revoked.is_cancelled())
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
            rounds: Rounds::default(),
            seen: SeenGateways::default(),
        }
    }

    /// Follows a change of the configuration.
    pub fn set_rules(&self, rules: ApprovalRules) {
        *self.rules.lock() = Arc::new(rules);
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
