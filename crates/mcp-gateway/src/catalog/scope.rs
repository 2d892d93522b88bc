//! The part of the catalog that one view has, or all of it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use gateway_access::Viewer;
use gateway_store::events::StoreError;
use gateway_store::search::{SearchStop, ToolIndex};
use mcp_core::server::{AccessItem, Denial, DeniedBy, Inclusion};
use mcp_core::tool::{BoundTool, ToolDefinition};

use super::Catalog;
use super::views::CatalogOfView;
use crate::config::BackendKey;
use crate::names::RefusedItem;

/// The tools of a catalog as the clients of one view know them, whatever their role.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    catalog: &'a Catalog,
    view: Option<&'a CatalogOfView>,
}

/// A tool, and its definition.
type Tool = (ToolDefinition, Arc<dyn BoundTool>);

impl Catalog {
    /// The tools of the view with this name, or all without a name. `None` if there is no such view.
    pub(crate) fn scope(&self, view: Option<&str>) -> Option<Scope<'_>> {
        let view = match view {
            None => None,
            Some(name) => Some(self.views.iter().find(|view| *view.items.name == *name)?),
        };
        Some(Scope {
            catalog: self,
            view,
        })
    }
}

impl Catalog {
    /// The backend of a tool.
    pub(crate) fn backend_of(&self, tool: &ToolDefinition) -> Option<&BackendKey> {
        self.backends.get(tool.original_name())
    }
}

impl<'a> Scope<'a> {
    fn includes(&self, tool: &ToolDefinition) -> bool {
        let view = self.view;
        view.is_none_or(|view| view.items.tools.includes(tool) != Inclusion::Out)
    }

    /// The tools that are not withheld, in the order of their published names.
    pub(crate) fn listed_tools(self) -> impl Iterator<Item = &'a ToolDefinition> {
        let tools = self.catalog.lists.tools.iter().map(|(tool, _)| tool);
        let tools = tools.filter(move |tool| tool.is_listed && self.includes(tool));
        tools.map(move |tool| match self.view {
            None => tool,
            Some(view) => view.items.tools.definition(tool),
        })
    }

    /// Items that are not offered, or not as a view says: without a view those of every one.
    pub(crate) fn refused(self) -> impl Iterator<Item = &'a RefusedItem> {
        let views = match self.view {
            None => &*self.catalog.views,
            Some(view) => std::slice::from_ref(view),
        };
        let unchanged = views.iter().flat_map(|view| &view.unchanged);
        self.catalog.refused.iter().chain(unchanged)
    }

    /// The numbers of its resources and prompts.
    pub(crate) fn counts(self) -> (usize, usize) {
        let lists = &self.catalog.lists;
        match self.view {
            None => (lists.resources.len(), lists.prompts.len()),
            Some(view) => (view.items.resources.len(), view.items.prompts.len()),
        }
    }

    /// The backends of the listed tools that `is_allowed`.
    pub(crate) fn backends_of(
        self,
        is_allowed: impl Fn(&ToolDefinition) -> bool,
    ) -> BTreeSet<&'a BackendKey> {
        let mut found = BTreeSet::new();
        for tool in self.listed_tools() {
            let key = self.catalog.backends.get(tool.original_name());
            // One tool of a backend is enough.
            if let Some(key) = key.filter(|key| !found.contains(key))
                && is_allowed(tool)
            {
                found.insert(key);
            }
        }
        found
    }

    /// Returns the tool of the catalog with this name or alias, which may not be in the view.
    fn known(self, name: &str) -> Option<&'a Tool> {
        let original = self.view.map(|view| view.items.tools.original(name));
        let original = original.unwrap_or(name);
        let mut tools = self.catalog.lists.tools.iter();
        tools.find(|(tool, _)| {
            tool.name == original || tool.aliases.iter().any(|alias| alias == original)
        })
    }

    /// The reason why the caller cannot use a tool that is there, for the operator.
    pub(crate) fn denial(self, name: &str, viewer: &Viewer) -> Option<Denial> {
        let (tool, _) = self.known(name)?;
        match viewer.allows(tool) {
            true => Some(self.view?.items.denial(Some(tool))),
            false => {
                let reason = viewer.explain(AccessItem::of_tool(tool))?;
                Some(Denial::new(DeniedBy::Role, reason))
            }
        }
    }

    /// Returns the tool with this name or alias.
    pub(crate) fn tool(self, name: &str) -> Option<&'a Tool> {
        let tool = self.known(name)?;
        match self.view.map(|view| &*view.items.tools) {
            None => Some(tool),
            Some(shown) if shown.has_other_name(&tool.0, name) || !self.includes(&tool.0) => None,
            Some(shown) => Some(shown.shown(tool)),
        }
    }

    /// Returns the listed tools that match `query`, the best match first. `catalog` is the one of this scope. The search
    /// is not the work of a worker of the runtime, and ends when the future is dropped.
    pub(crate) async fn find(
        self,
        catalog: &Arc<Catalog>,
        query: String,
    ) -> Result<Vec<&'a ToolDefinition>, StoreError> {
        let stop = SearchStop::default();
        let (catalog, view) = (Arc::clone(catalog), self.name());
        let stopped = stop.clone();
        let search = tokio::task::spawn_blocking(move || {
            let Some(scope) = catalog.scope(view.as_deref()) else {
                return Ok(Vec::new());
            };
            index_of(scope.index(), scope)?.search(&query, &stopped)
        });
        let _stop = stop.stop_when_dropped();
        // A search that has panicked finds nothing.
        let found = search.await.unwrap_or_else(|_| Ok(Vec::new()))?;
        let tools: Vec<&ToolDefinition> = self.listed_tools().collect();
        let found = found.into_iter();
        Ok(found.filter_map(|at| tools.get(at).copied()).collect())
    }

    fn name(self) -> Option<Arc<str>> {
        self.view.map(|view| Arc::clone(&view.items.name))
    }

    fn index(self) -> &'a OnceLock<ToolIndex> {
        match self.view {
            None => &self.catalog.index,
            Some(view) => &view.index,
        }
    }
}

/// Makes the index at the first search.
fn index_of<'a>(
    index: &'a OnceLock<ToolIndex>,
    scope: Scope<'_>,
) -> Result<&'a ToolIndex, StoreError> {
    match index.get() {
        Some(index) => Ok(index),
        None => {
            let made = ToolIndex::new(scope.listed_tools())?;
            Ok(index.get_or_init(|| made))
        }
    }
}
