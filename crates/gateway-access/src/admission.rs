//! Admission of calls: the one place where a call of a tool that its caller may use is judged with its arguments.
//!
//! The core asks here for each call of a tool, if there are roles or views, in every era and under every spelling;
//! `call_tool` asks for the tool that it calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::server::{AccessItem, Denial, DeniedBy, OriginalRequest, PreviousRounds, Principal};
use mcp_core::tool::{
    Call, Effect, ToolDefinition, ToolError, ToolErrorKind, without_tool_call_id,
};
use serde_json::value::RawValue;

use crate::rate::CallCounts;
use crate::roles::{Decision, Right, Role, Roles};
use crate::views;
use crate::views::{View, WITHOUT_VIEW};

/// The roles and views, and the state that is needed to judge a call. Its groups are the pairs of a view and a role.
pub struct Admission {
    /// `None` if every caller may use everything, as far as its view has it.
    pub roles: Option<Arc<Roles>>,
    views: Vec<Arc<View>>,
    /// Outlives changes of the roles.
    counts: Arc<CallCounts>,
    /// Makes rules such as `docker:docker://logs/*` match.
    owners: Arc<FindOwner>,
}

/// Finds the key of the backend that has the resource with a URI, or the template with a text.
pub type FindOwner = dyn Fn(&str) -> Option<Arc<str>> + Send + Sync;

impl Admission {
    /// Judges by these roles and views; `owners` finds the backend of a resource.
    pub fn new(
        roles: Option<Arc<Roles>>,
        views: Vec<Arc<View>>,
        counts: Arc<CallCounts>,
        owners: Arc<FindOwner>,
    ) -> Self {
        Self {
            roles,
            views,
            counts,
            owners,
        }
    }

    fn role_count(&self) -> usize {
        self.roles.as_ref().map_or(1, |roles| roles.roles.len())
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
        let owner = match item {
            AccessItem::Resource(uri) => (self.owners)(uri),
            _ => None,
        };
        let original = match (item, view) {
            (AccessItem::Tool { name, effect: None }, Some(view)) => AccessItem::Tool {
                name: view.original(name),
                effect: None,
            },
            _ => item,
        };
        (
            role.map(|role| role.decide(original, owner.as_deref())),
            view.map(|view| view.decide(item, owner.as_deref())),
        )
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
        let principal = origin.and_then(|origin| origin.caller.info.principal.as_deref());
        let role = roles.role(principal);
        let refused = |by, denial: String, error| {
            if let Some(origin) = origin {
                let reason = format!("role {}: {denial}", role.name);
                let _ = origin.notes.denial.set(Denial::new(by, reason));
            }
            Err(error)
        };
        let mut rule = None;
        if role.judges_arguments() {
            // The backend does not get it.
            let takes_it = tool.input_schema["properties"].get("toolCallId").is_some();
            let cleaned = match takes_it {
                true => None,
                false => without_tool_call_id(arguments),
            };
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
            let caller = principal.map(|principal| &principal.name);
            let counted = role.name.as_str().into();
            let taken = self
                .counts
                .take(&counted, caller, limit.rate, Instant::now());
            if let Err(wait) = taken {
                let denial = format!("denied by {limit}");
                return refused(DeniedBy::Limit, denial, try_again(&tool.name, wait));
            }
        }
        if let Some(origin) = origin {
            let of_name = || role.decide(AccessItem::of_tool(tool), None);
            let decision = rule.map_or_else(of_name, Decision::Allowed);
            let permission = format!("role {}: {decision}", role.name);
            let _ = origin.notes.permission.set(permission.into());
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
        let principal = origin.caller.info.principal.as_deref();
        let Some(group) = self.group(principal, origin.caller.view.as_deref()) else {
            return false;
        };
        let effect = Some(effect);
        let judged = self.role_of(group).filter(|role| role.judges_arguments());
        let allows_arguments = judged.is_none_or(|role| {
            let arguments = serde_json::from_str::<&RawValue>(arguments);
            arguments.is_ok_and(|arguments| role.judge(name, effect, arguments).is_ok())
        });
        allows_arguments && self.allows(group, AccessItem::Tool { name, effect })
    }

    /// True for a later round of a call that was counted (2026-07-28).
    fn is_later_round(&self, call: &Call) -> bool {
        let rounds = call.extension::<PreviousRounds>();
        let state = rounds.and_then(|rounds| rounds.state.as_deref());
        state.is_some_and(|state| self.counts.is_first_use(state, Instant::now()))
    }

    /// The number of groups, at least 1.
    pub fn groups(&self) -> usize {
        self.role_count() * (1 + self.views.len())
    }

    /// The group of the callers whose token belongs to this principal in the view with this name; `None` if there is no
    /// such view for them.
    pub fn group(&self, principal: Option<&Principal>, view: Option<&str>) -> Option<usize> {
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
        may_use.then(|| at * roles.roles.len() + role)
    }

    /// True if callers of the group may use the item.
    pub fn allows(&self, group: usize, item: AccessItem<'_>) -> bool {
        let (role, view) = self.decide(group, item);
        role.is_none_or(Decision::is_allowed) && view.is_none_or(Decision::is_allowed)
    }

    /// True if callers of the group may use all items, whatever they are.
    pub fn is_open(&self, group: usize) -> bool {
        self.roles.is_none() && self.view_of(group).is_none()
    }

    /// The decisions of the role and of the view, for the operator: that of the role if it denies.
    pub fn explain(&self, group: usize, item: AccessItem<'_>) -> String {
        let (of_role, of_view) = self.decide(group, item);
        let of_role = of_role.zip(self.role_of(group)).map(|(decision, role)| {
            let text = format!("role {}: {decision}", role.name);
            (decision.is_allowed(), text)
        });
        let of_view = of_view.zip(self.view_of(group)).map(|(decision, view)| {
            let text = format!("view {}: {decision}", view.name);
            (decision.is_allowed(), text)
        });
        match (of_role, of_view) {
            (None, None) => "allowed: there are no roles".to_owned(),
            (Some((false, text)), _) | (_, Some((false, text))) => text,
            (Some((true, text)), None) | (None, Some((true, text))) => text,
            (Some((true, role)), Some((true, view))) => format!("{role}; {view}"),
        }
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

/// The caller of a tool. Without roles and views it may see everything.
pub struct Viewer {
    admission: Option<Arc<Admission>>,
    /// The owner of its token.
    pub principal: Option<Arc<Principal>>,
    /// The name of the view that it uses.
    pub view: Option<Arc<str>>,
}

impl Viewer {
    /// The caller of `call`.
    pub fn new(admission: Option<Arc<Admission>>, call: &Call) -> Self {
        let origin = call.extension::<OriginalRequest>();
        Self {
            admission,
            principal: origin.and_then(|origin| origin.caller.info.principal.clone()),
            view: origin.and_then(|origin| origin.caller.view.clone()),
        }
    }

    /// A viewer of the page, who has no call and no view.
    pub fn from_principal(
        admission: Option<Arc<Admission>>,
        principal: Option<Arc<Principal>>,
    ) -> Self {
        Self {
            admission,
            principal,
            view: None,
        }
    }

    /// Its role; `None` without roles.
    pub fn role(&self) -> Option<&Role> {
        let roles = self.admission.as_ref()?.roles.as_ref()?;
        Some(roles.role(self.principal.as_deref()))
    }

    /// True if there are roles.
    pub fn has_roles(&self) -> bool {
        self.role().is_some()
    }

    /// The name of its view.
    pub fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// True if it has the right.
    pub fn has(&self, right: Right) -> bool {
        self.role().is_none_or(|role| role.has(right))
    }

    /// True if its view has this backend.
    pub fn has_backend(&self, key: &str) -> bool {
        let Some(name) = self.view() else {
            return true;
        };
        let admission = self.admission.as_ref();
        let view = admission.and_then(|admission| admission.view(name));
        view.is_some_and(|view| view.has_backend(key))
    }

    /// The decision about an item, for the operator; `None` without roles and views.
    pub fn explain(&self, item: AccessItem<'_>) -> Option<String> {
        let admission = self.admission.as_ref()?;
        Some(admission.explain(self.group()?, item))
    }

    fn group(&self) -> Option<usize> {
        let admission = self.admission.as_ref()?;
        admission.group(self.principal.as_deref(), self.view())
    }

    fn allows_item(&self, item: AccessItem<'_>) -> bool {
        match (&self.admission, self.group()) {
            (None, _) => self.view.is_none(),
            (Some(admission), Some(group)) => admission.allows(group, item),
            (Some(_), None) => false,
        }
    }

    /// True if it may use the tool.
    pub fn allows(&self, tool: &ToolDefinition) -> bool {
        self.allows_item(AccessItem::of_tool(tool))
    }

    /// True if it may call a tool of this name that is not in the catalog.
    pub fn allows_missing(&self, name: &str) -> bool {
        self.allows_item(AccessItem::Tool { name, effect: None })
    }
}
