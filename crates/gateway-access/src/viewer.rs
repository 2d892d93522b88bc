//! The caller of one of the gateway's own tools, with its role.

use std::sync::Arc;

use mcp_core::server::{AccessItem, OriginalRequest, Principal};
use mcp_core::tool::{Call, ToolDefinition};

use crate::roles::{Decision, Right, Role, Roles};

/// The caller of a tool. Without roles it may see everything.
pub struct Viewer {
    roles: Option<Arc<Roles>>,
    /// The owner of its token.
    pub principal: Option<Arc<Principal>>,
}

impl Viewer {
    /// The caller of `call`.
    pub fn new(roles: Option<Arc<Roles>>, call: &Call) -> Self {
        let origin = call.extension::<OriginalRequest>();
        let principal = origin.and_then(|origin| origin.principal.clone());
        Self { roles, principal }
    }

    fn role(&self) -> Option<&Role> {
        let roles = self.roles.as_ref()?;
        Some(roles.role(self.principal.as_deref()))
    }

    /// True if it has the right.
    pub fn has(&self, right: Right) -> bool {
        self.role().is_none_or(|role| role.has(right))
    }

    /// The decision about a tool; `None` without roles.
    pub fn decide(&self, tool: &ToolDefinition) -> Option<Decision<'_>> {
        Some(self.role()?.decide_tool(tool))
    }

    /// The decision with the role, for the operator.
    pub fn explain(&self, decision: Decision<'_>) -> String {
        let role = self.role().map_or("", |role| &*role.name);
        format!("role {role}: {decision}")
    }

    /// True if it may use the tool.
    pub fn allows(&self, tool: &ToolDefinition) -> bool {
        self.decide(tool).is_none_or(Decision::is_allowed)
    }

    /// True if it may call a tool of this name that is not in the catalog.
    pub fn allows_missing(&self, name: &str) -> bool {
        let item = AccessItem::Tool { name, effect: None };
        self.role()
            .is_none_or(|role| role.decide(item).is_allowed())
    }
}
