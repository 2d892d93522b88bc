//! The caller of one of the gateway's own tools, with its role and its view.

use std::sync::Arc;

use mcp_core::server::{Access as _, AccessItem, OriginalRequest, Principal};
use mcp_core::tool::{Call, ToolDefinition};

use crate::admission::Admission;
use crate::roles::{Right, Roles};
use crate::views::View;

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
            principal: origin.and_then(|origin| origin.principal.clone()),
            view: origin.and_then(|origin| origin.view.clone()),
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

    fn roles(&self) -> Option<&Arc<Roles>> {
        self.admission.as_ref()?.roles.as_ref()
    }

    /// True if there are roles.
    pub fn has_roles(&self) -> bool {
        self.roles().is_some()
    }

    /// The name of its role; `None` without roles.
    pub fn role_name(&self) -> Option<&str> {
        Some(&self.roles()?.role(self.principal.as_deref()).name)
    }

    /// The name of its view.
    pub fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// True if it has the right.
    pub fn has(&self, right: Right) -> bool {
        let principal = self.principal.as_deref();
        self.roles()
            .is_none_or(|roles| roles.role(principal).has(right))
    }

    /// True if its view has this backend.
    pub fn has_backend(&self, key: &str) -> bool {
        match (self.view(), self.own_view()) {
            (None, _) => true,
            (Some(_), view) => view.is_some_and(|view| view.has_backend(key)),
        }
    }

    fn own_view(&self) -> Option<&Arc<View>> {
        self.admission.as_ref()?.view(self.view()?)
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
