//! The part of the catalog that each group of callers sees: that of its role, in its view.

use std::sync::Arc;

use gateway_access::{Admission, CALL_TOOL, OWN_TOOLS, SEARCH_TOOLS};
use mcp_core::server::{Access, AccessItem, Denial, DeniedBy, Principal, ServerItems};
use mcp_core::tool::{Call, ToolDefinition, ToolError};
use serde_json::value::RawValue;

use crate::catalog::{MergedCatalog, Scope, Tool, has_resource};
use crate::config::BackendKey;
use crate::instructions;

/// Chooses the items of callers by the roles and views of one catalog.
pub(crate) struct CatalogAccess {
    pub(crate) admission: Arc<Admission>,
    pub(crate) catalog: Arc<MergedCatalog>,
    /// The instructions of the backends.
    pub(crate) servers: Vec<(BackendKey, String)>,
    /// Explains tools whose backend is down, by the name of the tool and of the view.
    pub(crate) why_missing: Arc<WhyMissingInView>,
}

type WhyMissingInView = dyn Fn(&str, Option<&str>) -> Option<ToolError> + Send + Sync;

impl CatalogAccess {
    /// The catalog in the view of a group; `None` if the view is newer than the catalog.
    fn scope(&self, group: usize) -> Option<Scope<'_>> {
        let view = self.admission.view_of(group);
        self.catalog.scope(view.map(|view| &*view.name))
    }

    /// The instructions of a group: those of its view or of the gateway, and of the backends of which it may use a tool.
    fn instructions(&self, group: usize) -> String {
        let own = match self.admission.view_of(group) {
            None => instructions::OWN,
            Some(view) => view.instructions.as_deref().unwrap_or_default(),
        };
        let is_allowed = |tool: &_| self.admission.allows(group, AccessItem::of_tool(tool));
        let used = self.scope(group).map(|scope| scope.backends_of(is_allowed));
        let used = used.unwrap_or_default();
        let is_open = self.admission.is_open(group);
        let servers = self.servers.iter().map(|(key, text)| (key, text.as_str()));
        let servers = servers.filter(|(key, _)| is_open || used.contains(key));
        let servers = instructions::merged(servers);
        let parts = [own, &servers].into_iter().filter(|text| !text.is_empty());
        parts.collect::<Vec<_>>().join("\n")
    }

    /// A tool of the server as a group sees it, if it may use it.
    fn tool(&self, group: usize, tool: &Tool) -> Option<Tool> {
        let name = tool.0.name.as_str();
        let scope = self.scope(group)?;
        let is_searched = scope.view.is_some_and(|view| view.is_searched);
        let shown = match OWN_TOOLS.contains(&name) {
            true if scope.view.is_some() && !is_searched && SEARCH_TOOLS.contains(&name) => None,
            true => Some(tool.clone()),
            false => scope.shown(tool).map(|(shown, bound)| {
                let mut shown = shown.clone();
                shown.is_listed &= !is_searched;
                (shown, Arc::clone(bound))
            }),
        };
        shown.filter(|(tool, _)| self.admission.allows(group, AccessItem::of_tool(tool)))
    }
}

impl Access for CatalogAccess {
    fn groups(&self) -> usize {
        self.admission.groups()
    }

    fn group(&self, principal: Option<&Principal>, view: Option<&str>) -> Option<usize> {
        self.catalog.scope(view)?;
        self.admission.group(principal, view)
    }

    fn views(&self) -> Vec<Arc<str>> {
        let views = self.catalog.views.iter();
        views.map(|view| Arc::clone(view.name())).collect()
    }

    fn has_roles(&self) -> bool {
        self.admission.roles.is_some()
    }

    fn items(&self, group: usize, all: &ServerItems) -> ServerItems {
        let admission = Arc::clone(&self.admission);
        let view = self.scope(group).and_then(|scope| scope.view);
        let tools = all.tools.iter().filter_map(|tool| self.tool(group, tool));
        let prompts = view.map_or(&all.prompts, |view| &view.prompts).iter();
        let prompts =
            prompts.filter(|(prompt, _)| admission.allows(group, AccessItem::Prompt(&prompt.name)));
        let resources = view.map_or(&all.resources, |view| &view.resources).iter();
        let resources = resources.filter(|(resource, _)| {
            resource.is_template() || admission.allows(group, AccessItem::Resource(&resource.uri))
        });
        let (own, why_missing) = (all.why_missing.clone(), Arc::clone(&self.why_missing));
        let name = view.map(|view| Arc::clone(view.name()));
        ServerItems {
            title: view.and_then(|view| view.view.title.clone()),
            tools: tools.collect(),
            resources: resources.cloned().collect(),
            prompts: prompts.cloned().collect(),
            instructions: self.instructions(group),
            access: None,
            why_missing: Some(Arc::new(move |tool| {
                let item = AccessItem::Tool {
                    name: tool,
                    effect: None,
                };
                let of_own = own.as_ref().and_then(|own| own(tool));
                let of_backend = || why_missing(tool, name.as_deref());
                let is_allowed = admission.allows(group, item);
                is_allowed.then(|| of_own.or_else(of_backend))?
            })),
        }
    }

    fn is_open(&self, group: usize) -> bool {
        self.admission.is_open(group)
    }

    fn allows_uri(&self, group: usize, uri: &str) -> bool {
        let view = self.scope(group).and_then(|scope| scope.view);
        self.admission.allows(group, AccessItem::Resource(uri))
            && view.is_none_or(|view| has_resource(&view.resources, uri))
    }

    fn original<'a>(&'a self, group: usize, name: &'a str) -> &'a str {
        let scope = self.scope(group);
        scope.map_or(name, |scope| scope.original(name))
    }

    fn denial(&self, group: usize, item: AccessItem<'_>) -> Option<Denial> {
        if !self.admission.allows(group, item) {
            let reason = self.admission.explain(group, item);
            return Some(Denial::new(DeniedBy::Role, reason));
        }
        let scope = self.scope(group)?;
        match item {
            AccessItem::Tool { name, .. } => scope.not_here(Some(name)),
            AccessItem::Resource(uri) if !has_resource(&self.catalog.lists.resources, uri) => None,
            AccessItem::Prompt(_) | AccessItem::Resource(_) => scope.not_here(None),
        }
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
            false => self.admission.judge(tool, arguments, call),
        }
    }
}
