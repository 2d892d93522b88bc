//! Admission of calls: the one place where a call of a tool that its caller may use is judged with its arguments.
//!
//! The core asks here for each call of a listed tool, in every era and under every spelling; `call_tool` asks for the
//! tool that it calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::server::{Access, AccessItem, OriginalRequest, PreviousRounds, Principal};
use mcp_core::tool::{
    Call, Effect, ToolDefinition, ToolError, ToolErrorKind, without_tool_call_id,
};
use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::condition::arguments::Arguments;
use crate::condition::{Condition, JudgedCall};
use crate::own_tools::CALL_TOOL;
use crate::rate::CallCounts;
use crate::roles::{Role, Roles};

/// The roles, and the state that is needed to judge a call.
pub struct Admission {
    /// The roles.
    pub roles: Arc<Roles>,
    counts: Arc<CallCounts>,
    /// For each role the rule that has allowed a tool with its effect, as events have it: matching all patterns at
    /// each call would cost more than the rest of the decision.
    permissions: Vec<Mutex<Permissions>>,
}

/// By the name of a tool: its effect, and the rule that allows it.
type Permissions = HashMap<String, (Effect, Arc<str>)>;

/// Limit for these texts of one role. Beyond that all are made again.
const MAX_PERMISSIONS: usize = 20_000;

impl Admission {
    /// `counts` outlives changes of the roles.
    pub fn new(roles: Arc<Roles>, counts: Arc<CallCounts>) -> Self {
        let permissions = roles.roles.iter().map(|_| Mutex::default()).collect();
        Self {
            roles,
            counts,
            permissions,
        }
    }

    /// Judges a call of a tool that its caller may use. A refusal is noted for the event of the call.
    ///
    /// # Errors
    /// The refusal, for the model.
    pub fn judge(
        &self,
        tool: &ToolDefinition,
        arguments: &RawValue,
        call: &Call,
    ) -> Result<(), ToolError> {
        let origin = call.extension::<OriginalRequest>();
        let principal = origin.and_then(|origin| origin.principal.as_deref());
        let role = self.roles.role(principal);
        let refused = |denial: String, error| {
            if let Some(origin) = origin {
                origin
                    .notes
                    .set_denial(format!("role {}: {denial}", role.name));
            }
            Err(error)
        };
        if !role.conditions.is_empty() {
            // The backend does not get it.
            let takes_it = tool.input_schema["properties"].get("toolCallId").is_some();
            let cleaned = (!takes_it)
                .then(|| without_tool_call_id(arguments))
                .flatten();
            let arguments = cleaned.as_deref().unwrap_or(arguments);
            if let Err(denial) = check(role, principal, &tool.name, arguments) {
                return refused(denial, not_with_these_arguments(role, tool));
            }
        }
        if let Some(limit) = &role.limit
            && !self.is_later_round(call)
        {
            let name = principal.map(|principal| &principal.name);
            let taken = self
                .counts
                .take(&role.shared_name(), name, limit.rate, Instant::now());
            if let Err(wait) = taken {
                return refused(format!("denied by {limit}"), try_again(&tool.name, wait));
            }
        }
        if let Some(origin) = origin {
            origin
                .notes
                .set_permission(self.permission(principal, tool));
        }
        Ok(())
    }

    /// True for a later round of a call that was counted (2026-07-28).
    fn is_later_round(&self, call: &Call) -> bool {
        let rounds = call.extension::<PreviousRounds>();
        let state = rounds.and_then(|rounds| rounds.state.as_deref());
        state.is_some_and(|state| self.counts.is_first_use(state, Instant::now()))
    }

    /// The rule that allows a tool.
    fn permission(&self, principal: Option<&Principal>, tool: &ToolDefinition) -> Arc<str> {
        let group = self.roles.group(principal);
        let mut known = self.permissions[group].lock();
        if let Some((effect, text)) = known.get(&tool.name)
            && *effect == tool.effect
        {
            return Arc::clone(text);
        }
        let role = &self.roles.roles[group];
        let text: Arc<str> = format!("role {}: {}", role.name, role.decide_tool(tool)).into();
        if known.len() >= MAX_PERMISSIONS {
            known.clear();
        }
        known.insert(tool.name.clone(), (tool.effect, Arc::clone(&text)));
        text
    }
}

impl Access for Admission {
    fn groups(&self) -> usize {
        self.roles.groups()
    }

    fn group(&self, principal: Option<&Principal>) -> usize {
        self.roles.group(principal)
    }

    fn allows(&self, group: usize, item: AccessItem<'_>) -> bool {
        self.roles.allows(group, item)
    }

    fn explain(&self, group: usize, item: AccessItem<'_>) -> String {
        self.roles.explain(group, item)
    }

    fn admit(
        &self,
        tool: &ToolDefinition,
        arguments: &RawValue,
        call: &Call,
    ) -> Result<(), ToolError> {
        // The tool that it calls is judged.
        match tool.name == CALL_TOOL {
            true => Ok(()),
            false => self.judge(tool, arguments, call),
        }
    }
}

/// Checks the conditions of a role.
///
/// # Errors
/// The condition that denies the call, and why.
pub fn check(
    role: &Role,
    principal: Option<&Principal>,
    tool: &str,
    arguments: &RawValue,
) -> Result<(), String> {
    let arguments = Arguments::read(arguments);
    for condition in &role.conditions {
        let holds = arguments
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|arguments| {
                condition.holds(&JudgedCall {
                    tool,
                    arguments,
                    principal,
                })
            });
        match holds {
            Ok(true) => {}
            Ok(false) => return Err(format!("denied by {condition}")),
            Err(reason) => {
                let role = &role.name;
                tracing::warn!(
                    tool,
                    role,
                    "denied: {condition} cannot be evaluated: {reason}"
                );
                return Err(format!(
                    "denied by {condition}, which cannot be evaluated: {reason}"
                ));
            }
        }
    }
    Ok(())
}

/// The refusal names the arguments that matter, and not the rule.
fn not_with_these_arguments(role: &Role, tool: &ToolDefinition) -> ToolError {
    let properties = &tool.input_schema["properties"];
    let names = role.conditions.iter().flat_map(Condition::names);
    let mut names: Vec<&str> = names
        .map(String::as_str)
        .filter(|name| properties.get(name).is_some())
        .collect();
    names.sort_unstable();
    names.dedup();
    let which = match names.as_slice() {
        [] => "these arguments".to_owned(),
        names => format!("these values of: {}", names.join(", ")),
    };
    let text = format!(
        "You may call {}, but not with {which}. The operator's rules decide; the same call stays refused.",
        tool.name
    );
    ToolError::forbidden(text)
}

fn try_again(tool: &str, wait: Duration) -> ToolError {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let text = format!("{tool} was not called: too many calls. Try again in {seconds} s.");
    ToolError::new(ToolErrorKind::RateLimited, text)
}
