//! The items of each view, made of those of the catalog.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use gateway_access::{OWN_TOOLS, SEARCH_TOOLS, View, ViewTool};
use gateway_store::search::ToolIndex;
use mcp_core::server::{AccessItem, Inclusion, ViewItems, ViewTools};
use mcp_core::suggestion::suggestion;
use mcp_core::tool::{BoundTool, ToolDefinition};

use super::Catalog;
use crate::config::{BackendKey, ViewConfig};
use crate::names::RefusedItem;

/// The items of one view.
pub(crate) struct CatalogOfView {
    pub(crate) items: ViewItems,
    /// Tools that it shows as `/mcp` does, since their tables cannot be used.
    pub(crate) unchanged: Vec<RefusedItem>,
    /// Made by the first search.
    pub(super) index: OnceLock<ToolIndex>,
}

/// A tool, and its definition.
type Tool = (ToolDefinition, Arc<dyn BoundTool>);

impl Catalog {
    /// Adds the items of `views`. In a view with more tools than `search_above` they are searched, not listed.
    pub(crate) fn add_views(&mut self, views: &[Arc<ViewConfig>], search_above: Option<usize>) {
        for view in views {
            let mut unchanged = Vec::new();
            let items = self.items_of(view, search_above, &mut unchanged);
            self.views.push(CatalogOfView {
                items,
                unchanged,
                index: OnceLock::new(),
            });
        }
    }

    fn items_of(
        &self,
        view: &ViewConfig,
        search_above: Option<usize>,
        refused: &mut Vec<RefusedItem>,
    ) -> ViewItems {
        let has = |item: &str| {
            let key = self.backends.get(item);
            key.is_some_and(|key| view.has_backend(key.as_str()))
        };
        let is_in = |tool: &ToolDefinition| {
            has(&tool.name) && view.decide(AccessItem::of_tool(tool)).is_allowed()
        };
        let included = self.lists.tools.iter().map(|(tool, _)| tool);
        let count = included
            .filter(|tool| tool.is_listed && is_in(tool))
            .count();
        let is_searched = search_above.is_some_and(|limit| count > limit);
        let withheld = self.lists.tools.iter().map(|(tool, _)| tool);
        let withheld = withheld.filter(|tool| !tool.is_listed);
        let withheld: BTreeSet<String> = withheld.map(|tool| tool.name.clone()).collect();
        let (own, backends) = (Arc::clone(&view.view), Arc::clone(&self.backends));
        let includes = move |tool: &ToolDefinition| {
            let name = tool.name.as_str();
            if OWN_TOOLS.contains(&name) {
                return match is_searched || !SEARCH_TOOLS.contains(&name) {
                    true => Inclusion::Listed,
                    false => Inclusion::Out,
                };
            }
            let has_backend = backends
                .get(name)
                .is_some_and(|key| own.has_backend(key.as_str()));
            match has_backend && own.decide(AccessItem::of_tool(tool)).is_allowed() {
                false => Inclusion::Out,
                true if is_searched || withheld.contains(name) => Inclusion::Callable,
                true => Inclusion::Listed,
            }
        };
        let of_prompt = |name: &str| {
            let key = self.prompt_backends.get(name);
            key.is_some_and(|key| view.has_backend(key.as_str()))
                && view.decide(AccessItem::Prompt(name)).is_allowed()
        };
        let of_resource = |uri: &str, is_template: bool| {
            let key = self.resource_backends.get(uri);
            // The resources of a template are decided about when they are read.
            key.is_some_and(|key| {
                let item = AccessItem::Resource(uri);
                let is_allowed = || view.decide_of(item, Some(key.as_str())).is_allowed();
                view.has_backend(key.as_str()) && (is_template || is_allowed())
            })
        };
        let prompts = self.lists.prompts.iter();
        let prompts = prompts.filter(|(prompt, _)| of_prompt(&prompt.name));
        let resources = self.lists.resources.iter();
        let resources =
            resources.filter(|(resource, _)| of_resource(&resource.uri, resource.is_template()));
        let changed = self.changed(view, &is_in, refused);
        ViewItems {
            name: Arc::clone(&view.name),
            title: view.title.clone(),
            prompts: prompts.cloned().collect(),
            resources: resources.cloned().collect(),
            tools: Arc::new(ViewTools::new(includes, changed)),
        }
    }

    /// The tools that have other names or texts in the view. A name that another tool has there is refused, and so is
    /// a table for a tool that its backend does not have.
    fn changed(
        &self,
        view: &ViewConfig,
        is_in: &dyn Fn(&ToolDefinition) -> bool,
        refused: &mut Vec<RefusedItem>,
    ) -> Vec<Tool> {
        if view.tools.is_empty() {
            return Vec::new();
        }
        let tools = self.lists.tools.iter();
        let known: HashMap<&str, &Tool> = tools
            .filter(|(tool, _)| is_in(tool))
            .map(|tool| (tool.0.name.as_str(), tool))
            .collect();
        let mut changed = Vec::new();
        for entry in &view.tools {
            let shown = match known.get(&*entry.original) {
                None => self.unknown(view, entry, known.keys().copied()),
                Some(_) if entry.name.is_some() && known.contains_key(entry.shown()) => {
                    let text = format!(
                        "another tool has the name {:?}; it keeps its own",
                        entry.shown()
                    );
                    Some(Err(text))
                }
                Some((tool, bound)) => {
                    let shown = tool.in_view(entry.shown(), |json| {
                        view.texts.get(&entry.original)?.applied_to(json)
                    });
                    Some(shown.map(|shown| (shown, Arc::clone(bound))))
                }
            };
            match shown {
                None => {}
                Some(Ok(shown)) => changed.push(shown),
                Some(Err(reason)) => refused.push(RefusedItem {
                    backend: self.backend_name(&entry.original),
                    item: entry.original.clone(),
                    reason: format!("views.{}: {reason}", view.name),
                }),
            }
        }
        changed
    }

    /// The fault of a table for a tool that is not there; `None` if its backend has no tools yet.
    fn unknown<'a>(
        &self,
        view: &View,
        entry: &ViewTool,
        known: impl Iterator<Item = &'a str>,
    ) -> Option<Result<Tool, String>> {
        let is_of = |key: &BackendKey| key.is_prefix_of(&entry.original);
        let backend = self.backends.values().find(|key| is_of(key))?;
        view.has_backend(backend.as_str()).then(|| {
            let known = known.filter(|name| backend.is_prefix_of(name));
            Err(format!(
                "there is no such tool{}",
                suggestion(&entry.original, known)
            ))
        })
    }

    /// The backend of a published name, as far as it is known.
    fn backend_name(&self, tool: &str) -> String {
        let key = self.backends.get(tool);
        let key = key.or_else(|| self.backends.values().find(|key| key.is_prefix_of(tool)));
        key.map(ToString::to_string).unwrap_or_default()
    }
}
