//! Admission of calls: the one place where a call of a tool that its caller may use is judged with its arguments.
//!
//! The core asks here for each call of a listed tool, in every era and under every spelling; `call_tool` asks for the
//! tool that it calls.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::server::{
    Access, AccessItem, Denial, DeniedBy, OriginalRequest, PreviousRounds, Principal,
};
use mcp_core::tool::{
    Call, Effect, ToolDefinition, ToolError, ToolErrorKind, without_tool_call_id,
};
use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::own_tools::CALL_TOOL;
use crate::rate::CallCounts;
use crate::roles::{Decision, Role, Roles};
use crate::views::{self, View, WITHOUT_VIEW};

/// The roles and views, and the state that is needed to judge a call. Its groups are the pairs of a view and a role.
pub struct Admission {
    /// `None` if every caller may use everything, as far as its view has it.
    pub roles: Option<Arc<Roles>>,
    views: Vec<Arc<View>>,
    counts: Arc<CallCounts>,
    /// Finds the backend of a resource or template; `None` if rules do not name backends.
    owners: Option<Arc<FindOwner>>,
    /// For each role the rule that has allowed a tool with its effect, as events have it: matching all patterns at
    /// each call would cost more than the rest of the decision.
    permissions: Vec<Mutex<Permissions>>,
}

/// Finds the key of the backend that has the resource with a URI, or the template with a text.
pub type FindOwner = dyn Fn(&str) -> Option<Arc<str>> + Send + Sync;

/// By the name of a tool: its effect, and the rule that allows it.
type Permissions = HashMap<String, (Effect, Arc<str>)>;

/// Limit for these texts of one role. Beyond that all are made again.
const MAX_PERMISSIONS: usize = 20_000;

impl Admission {
    /// `counts` outlives changes of the roles.
    pub fn new(roles: Option<Arc<Roles>>, views: Vec<Arc<View>>, counts: Arc<CallCounts>) -> Self {
        let all = roles.iter().flat_map(|roles| &roles.roles);
        let permissions = all.map(|_| Mutex::default()).collect();
        Self {
            roles,
            views,
            counts,
            owners: None,
            permissions,
        }
    }

    /// Makes rules such as `docker:docker://logs/*` match, by the backend that `owners` finds for a URI.
    #[must_use]
    pub fn with_owners(mut self, owners: Arc<FindOwner>) -> Self {
        self.owners = Some(owners);
        self
    }

    fn role_count(&self) -> usize {
        self.roles.as_ref().map_or(1, |roles| roles.groups())
    }

    /// The role of a group; `None` without roles.
    fn role_of(&self, group: usize) -> Option<&Role> {
        let roles = self.roles.as_ref()?;
        Some(&roles.roles[group % self.role_count()])
    }

    /// The view of a group; `None` for the gateway without a view.
    pub fn view_of(&self, group: usize) -> Option<&Arc<View>> {
        let at = (group / self.role_count()).checked_sub(1)?;
        self.views.get(at)
    }

    /// The view with this name.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(views::position(&self.views, name)?)
    }

    /// The decisions of the role and of the view of a group; `None` of what it does not have. Both must allow the
    /// item.
    fn decide<'a>(
        &'a self,
        group: usize,
        item: AccessItem<'_>,
    ) -> (Option<Decision<'a>>, Option<Decision<'a>>) {
        let (role, view) = (self.role_of(group), self.view_of(group));
        match (item, view) {
            (AccessItem::Tool { name, effect: None }, Some(view)) => {
                let missing = view.decide_missing(name);
                let item = AccessItem::Tool {
                    name: view.original(name),
                    effect: None,
                };
                (role.map(|role| role.decide(item)), Some(missing))
            }
            _ => {
                let owner = match (item, &self.owners) {
                    (AccessItem::Resource(uri), Some(find)) => find(uri),
                    _ => None,
                };
                (
                    role.map(|role| role.decide_of(item, owner.as_deref())),
                    view.map(|view| view.decide_of(item, owner.as_deref())),
                )
            }
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
        let Some(roles) = &self.roles else {
            return Ok(());
        };
        let origin = call.extension::<OriginalRequest>();
        let principal = origin.and_then(|origin| origin.principal.as_deref());
        let role = roles.role(principal);
        let refused = |by, denial: String, error| {
            if let Some(origin) = origin {
                let reason = format!("role {}: {denial}", role.name);
                origin.notes.set_denial(Denial::new(by, reason));
            }
            Err(error)
        };
        let mut rule = None;
        if role.judges_arguments() {
            // The backend does not get it.
            let takes_it = tool.input_schema["properties"].get("toolCallId").is_some();
            let cleaned = (!takes_it)
                .then(|| without_tool_call_id(arguments))
                .flatten();
            let arguments = cleaned.as_deref().unwrap_or(arguments);
            let (name, effect) = (tool.original_name(), Some(tool.original_effect()));
            rule = match role.judge(name, effect, arguments) {
                Ok(rule) => rule,
                Err(denial) => {
                    let error = not_with_these_arguments(role, tool);
                    return refused(DeniedBy::Condition, denial, error);
                }
            };
        }
        if let Some(limit) = &role.limit
            && !self.is_later_round(call)
        {
            let name = principal.map(|principal| &principal.name);
            let taken = self
                .counts
                .take(&role.shared_name(), name, limit.rate, Instant::now());
            if let Err(wait) = taken {
                let denial = format!("denied by {limit}");
                return refused(DeniedBy::Limit, denial, try_again(&tool.name, wait));
            }
        }
        if let Some(origin) = origin {
            let permission = match rule {
                Some(rule) => format!("role {}: {}", role.name, Decision::Allowed(rule)).into(),
                None => self.permission(roles, principal, tool),
            };
            origin.notes.set_permission(permission);
        }
        Ok(())
    }

    /// True if the caller of a call that was admitted earlier may make it by the roles and views of now. `name` and
    /// `effect` are those of its tool without a view.
    pub fn still_allows(
        &self,
        origin: &OriginalRequest,
        name: &str,
        effect: Effect,
        arguments: &str,
    ) -> bool {
        let principal = origin.principal.as_deref();
        let Some(group) = self.group(principal, origin.view.as_deref()) else {
            return false;
        };
        let effect = Some(effect);
        if !self.allows(group, AccessItem::Tool { name, effect }) {
            return false;
        }
        let role = self.role_of(group).filter(|role| role.judges_arguments());
        let Some(role) = role else {
            return true;
        };
        let arguments = serde_json::from_str::<&RawValue>(arguments);
        arguments.is_ok_and(|arguments| role.judge(name, effect, arguments).is_ok())
    }

    /// True for a later round of a call that was counted (2026-07-28).
    fn is_later_round(&self, call: &Call) -> bool {
        let rounds = call.extension::<PreviousRounds>();
        let state = rounds.and_then(|rounds| rounds.state.as_deref());
        state.is_some_and(|state| self.counts.is_first_use(state, Instant::now()))
    }

    /// The rule that allows a tool.
    fn permission(
        &self,
        roles: &Roles,
        principal: Option<&Principal>,
        tool: &ToolDefinition,
    ) -> Arc<str> {
        let group = roles.group(principal);
        let mut known = self.permissions[group].lock();
        if let Some((effect, text)) = known.get(tool.original_name())
            && *effect == tool.original_effect()
        {
            return Arc::clone(text);
        }
        let role = &roles.roles[group];
        let text: Arc<str> = format!("role {}: {}", role.name, role.decide_tool(tool)).into();
        if known.len() >= MAX_PERMISSIONS {
            known.clear();
        }
        let name = tool.original_name().to_owned();
        known.insert(name, (tool.original_effect(), Arc::clone(&text)));
        text
    }
}

impl Access for Admission {
    fn groups(&self) -> usize {
        self.role_count() * (1 + self.views.len())
    }

    fn group(&self, principal: Option<&Principal>, view: Option<&str>) -> Option<usize> {
        let at = match view {
            None => 0,
            Some(name) => 1 + views::position(&self.views, name)?,
        };
        let Some(roles) = &self.roles else {
            return Some(at);
        };
        let role = roles.group(principal);
        let name = view.unwrap_or(WITHOUT_VIEW);
        let may_use = roles.roles[role].may_use_view(name);
        may_use.then(|| at * roles.groups() + role)
    }

    fn allows(&self, group: usize, item: AccessItem<'_>) -> bool {
        let (role, view) = self.decide(group, item);
        role.is_none_or(Decision::is_allowed) && view.is_none_or(Decision::is_allowed)
    }

    fn is_open(&self, group: usize) -> bool {
        self.roles.is_none() && self.view_of(group).is_none()
    }

    fn has_roles(&self) -> bool {
        self.roles.is_some()
    }

    fn fingerprint(&self, view: Option<&str>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.roles
            .as_ref()
            .map(|roles| roles.fingerprint())
            .hash(&mut hasher);
        let view = view.and_then(|name| self.view(name));
        view.map(|view| view.fingerprint()).hash(&mut hasher);
        hasher.finish()
    }

    fn explain(&self, group: usize, item: AccessItem<'_>) -> String {
        let (role, of_view) = self.decide(group, item);
        let name = self.role_of(group).map_or("", |role| &role.name);
        explained(
            role.map(|decision| (name, decision)),
            of_view.zip(self.view_of(group)),
        )
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

/// The decisions of a role and of a view, for the operator: that of the role if it denies.
fn explained(
    role: Option<(&str, Decision<'_>)>,
    view: Option<(Decision<'_>, &Arc<View>)>,
) -> String {
    let role_text = role.map(|(name, decision)| format!("role {name}: {decision}"));
    let view_text = view.map(|(decision, view)| format!("view {}: {decision}", view.name));
    match (role_text, view_text) {
        (Some(role_text), None) => role_text,
        (None, Some(view_text)) => view_text,
        (Some(role_text), Some(view_text)) => {
            let is_allowed =
                |decision: Option<Decision<'_>>| decision.is_some_and(Decision::is_allowed);
            let (role, view) = (role.map(|found| found.1), view.map(|found| found.0));
            match (is_allowed(role), is_allowed(view)) {
                (false, _) => role_text,
                (true, false) => view_text,
                (true, true) => format!("{role_text}; {view_text}"),
            }
        }
        (None, None) => "allowed: there are no roles".to_owned(),
    }
}

/// The refusal names the arguments that matter, and not the rule.
fn not_with_these_arguments(role: &Role, tool: &ToolDefinition) -> ToolError {
    let properties = &tool.input_schema["properties"];
    let rules = role.allowing(tool.original_name(), Some(tool.original_effect()));
    let patterns = rules.filter_map(|rule| rule.arguments.as_ref());
    let mut names: Vec<&str> = patterns
        .flat_map(|patterns| patterns.names())
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
