//! The catalog: what the backends offer, put together under published names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use mcp_core::server::ServerItems;
use mcp_core::tool::{BoundTool, TaskSupport, ToolDefinition};

use crate::backend::{Backend, Item, Snapshot};
use crate::config::{BackendKey, Filter, ToolChanges};
use crate::names::{BackendItems, Names, Reason};
use crate::relay::tool::RelayedTool;
use crate::relay::{Relay, prompt, resource};
use crate::sanitise;
use crate::search::ToolIndex;

/// The backends' items under their published names, and what of them is not published.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) lists: ServerItems,
    /// What is left out although nothing denies it, and why, for `gateway_status`.
    pub(crate) refused: Vec<Refused>,
    /// Made by the first search.
    index: OnceLock<ToolIndex>,
}

/// An item that cannot be offered.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) backend: BackendKey,
    pub(crate) item: String,
    pub(crate) reason: String,
}

/// A backend with what it offers at the moment.
struct Part {
    backend: Arc<Backend>,
    snapshot: Arc<Snapshot>,
}

impl Part {
    fn items<'a>(&'a self, filter: &'a Filter, items: &'a [Item]) -> BackendItems<'a> {
        BackendItems {
            backend: &self.backend.key,
            filter,
            bare: self.backend.config.bare,
            names: items.iter().map(|item| item.id.as_str()).collect(),
        }
    }
}

impl Catalog {
    /// Puts together what `backends` offer at the moment. The same lists always give the same
    /// catalog, in the same order.
    pub(crate) fn new(
        relay: &Relay,
        backends: &BTreeMap<BackendKey, Arc<Backend>>,
        changes: ToolChanges,
    ) -> Self {
        let parts: Vec<Part> = backends
            .values()
            .map(|backend| Part {
                backend: Arc::clone(backend),
                snapshot: backend.snapshot(),
            })
            .collect();
        let mut catalog = Self::default();
        catalog.add_tools(relay, &parts, changes == ToolChanges::Block);
        catalog.add_prompts(relay, &parts);
        catalog.add_resources(relay, &parts);
        catalog
    }

    /// The tools that clients may see, in the order of their names.
    pub(crate) fn listed_tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let tools = self.lists.tools.iter().map(|(tool, _)| tool);
        tools.filter(|tool| tool.is_listed)
    }

    /// The tool with this name or alias.
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn BoundTool>> {
        let mut tools = self.lists.tools.iter();
        let has_name = |tool: &ToolDefinition| {
            tool.name == name || tool.aliases.iter().any(|alias| alias == name)
        };
        tools.find(|(tool, _)| has_name(tool)).map(|(_, tool)| tool)
    }

    /// The listed tools that have to do with `query`, the best match first.
    pub(crate) fn search(&self, query: &str, limit: u32) -> rusqlite::Result<Vec<&ToolDefinition>> {
        let index = match self.index.get() {
            Some(index) => index,
            None => {
                let index = ToolIndex::new(self.listed_tools())?;
                self.index.get_or_init(|| index)
            }
        };
        let tools: Vec<&ToolDefinition> = self.listed_tools().collect();
        let found = index.search(query, limit)?.into_iter();
        Ok(found.filter_map(|at| tools.get(at).copied()).collect())
    }

    fn add_tools(&mut self, relay: &Relay, parts: &[Part], blocks_changes: bool) {
        let all = Filter::default();
        let names = |filtered: bool| {
            Names::publish(parts.iter().map(|part| {
                let filter = &part.backend.config.filter;
                part.items(if filtered { filter } else { &all }, &part.snapshot.tools)
            }))
        };
        self.refuse_unnamed(&names(true));
        // Those that are denied can be called too: the answer says that they are denied.
        for published in names(false).published() {
            let Some(part) = find(parts, &published.backend) else {
                continue;
            };
            let tools = &part.snapshot.tools;
            let Some(item) = tools.iter().find(|tool| *tool.id == *published.item) else {
                continue;
            };
            let is_denied = !part.backend.config.filter.allows(&item.id);
            let definition = sanitise::tool(&item.definition).and_then(|definition| {
                let (name, plain) = (published.name.to_string(), published.plain.to_string());
                ToolDefinition::from_backend(name, plain, &definition)
            });
            let mut definition = match definition {
                Ok(definition) => definition,
                Err(_) if is_denied => continue,
                Err(reason) => {
                    self.refuse(&published.backend, &item.id, reason);
                    continue;
                }
            };
            if blocks_changes && part.snapshot.changed.contains(&item.id) {
                let reason = "is not what it was; gateway_restart accepts it";
                self.refuse(&published.backend, &item.id, reason);
                continue;
            }
            definition.is_listed = !is_denied;
            if part.backend.has_tasks() {
                definition.task = TaskSupport::Late;
            }
            definition.aliases.extend(published.aliases());
            let tool: Arc<dyn BoundTool> = Arc::new(RelayedTool {
                relay: relay.clone(),
                backend: Arc::clone(&part.backend),
                item: Arc::clone(&published.item),
                published: Arc::clone(&published.name),
                effect: definition.effect,
                is_denied,
            });
            self.lists.tools.push((definition, tool));
        }
    }

    fn add_prompts(&mut self, relay: &Relay, parts: &[Part]) {
        let offers = parts
            .iter()
            .map(|part| part.items(&part.backend.config.filter, &part.snapshot.prompts));
        let names = Names::publish(offers);
        self.refuse_unnamed(&names);
        for published in names.published() {
            let relayed = find(parts, &published.backend).and_then(|part| {
                let prompts = &part.snapshot.prompts;
                let item = prompts
                    .iter()
                    .find(|prompt| *prompt.id == *published.item)?;
                prompt::relayed(relay, &part.backend, published, item)
            });
            self.lists.prompts.extend(relayed);
        }
    }

    /// URIs are the backends' own: the first backend that has one answers for it.
    fn add_resources(&mut self, relay: &Relay, parts: &[Part]) {
        let mut taken = BTreeSet::new();
        for Part { backend, snapshot } in parts {
            let items = snapshot.resources.iter().chain(&snapshot.templates);
            for item in items.filter(|item| backend.config.filter.allows(&item.id)) {
                if taken.insert(item.id.clone()) {
                    self.lists
                        .resources
                        .push(resource::relayed(relay, backend, item));
                    continue;
                }
                let reason = "another backend has a resource with this URI";
                self.refuse(&backend.key, &item.id, reason);
            }
        }
        // What is named in full is never taken for what only fits a template.
        self.lists
            .resources
            .sort_by_key(|(resource, _)| resource.is_template());
    }

    fn refuse_unnamed(&mut self, names: &Names) {
        for refused in names.refused() {
            let reason = match &refused.reason {
                Reason::Unnamed => "has no name".to_owned(),
                Reason::Twice => "is listed twice".to_owned(),
                Reason::Reserved => "has a name of the gateway's own tools".to_owned(),
                Reason::Taken(other) => format!("its name is taken by {other:?}"),
            };
            self.refuse(&refused.backend, &refused.item, reason);
        }
    }

    fn refuse(&mut self, backend: &BackendKey, item: &str, reason: impl Into<String>) {
        self.refused.push(Refused {
            backend: backend.clone(),
            item: item.to_owned(),
            reason: reason.into(),
        });
    }
}

fn find<'a>(parts: &'a [Part], key: &BackendKey) -> Option<&'a Part> {
    parts.iter().find(|part| part.backend.key == *key)
}
