//! What the gateway offers of its backends: their lists, put together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_core::server::Lists;
use mcp_core::tool::{BoundTool, Definition, TaskSupport};

use crate::backend::{Backend, Item, Snapshot};
use crate::config::{BackendKey, Filter, ToolChanges};
use crate::names::{Names, Offer, Reason};
use crate::relay::tool::RelayedTool;
use crate::relay::{Relay, prompt, resource};
use crate::sanitise;

/// The backends' items under their published names, and what of them is not published.
#[derive(Default)]
pub(crate) struct Offering {
    pub(crate) lists: Lists,
    /// What is left out although nothing denies it, and why, for `gateway_status`.
    pub(crate) refused: Vec<Refused>,
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
    fn offer<'a>(&'a self, filter: &'a Filter, items: &'a [Item]) -> Offer<'a> {
        Offer {
            backend: &self.backend.key,
            filter,
            bare: self.backend.config.bare,
            names: items.iter().map(|item| item.id.as_str()).collect(),
        }
    }
}

impl Offering {
    /// Puts together what `backends` offer at the moment. The same lists always give the same
    /// offering, in the same order.
    pub(crate) fn of(
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
        let mut offering = Self::default();
        offering.add_tools(relay, &parts, changes == ToolChanges::Block);
        offering.add_prompts(relay, &parts);
        offering.add_resources(relay, &parts);
        offering
    }

    fn add_tools(&mut self, relay: &Relay, parts: &[Part], blocks_changes: bool) {
        let all = Filter::default();
        let names = |filtered: bool| {
            Names::publish(parts.iter().map(|part| {
                let filter = &part.backend.config.filter;
                part.offer(if filtered { filter } else { &all }, &part.snapshot.tools)
            }))
        };
        self.refuse(&names(true));
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
                Definition::imported(name, plain, &definition)
            });
            let mut definition = match definition {
                Ok(definition) => definition,
                Err(_) if is_denied => continue,
                Err(reason) => {
                    self.refused.push(Refused {
                        backend: published.backend.clone(),
                        item: item.id.clone(),
                        reason,
                    });
                    continue;
                }
            };
            if blocks_changes && part.snapshot.changed.contains(&item.id) {
                self.refused.push(Refused {
                    backend: published.backend.clone(),
                    item: item.id.clone(),
                    reason: "is not what it was; gateway_restart accepts it".to_owned(),
                });
                continue;
            }
            definition.is_listed = !is_denied;
            if part.backend.has_tasks() {
                definition.task = TaskSupport::Late;
            }
            definition.aliases.extend([
                format!("{}:{}", published.backend, published.item),
                format!("{}.{}", published.backend, published.item),
            ]);
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
            .map(|part| part.offer(&part.backend.config.filter, &part.snapshot.prompts));
        let names = Names::publish(offers);
        self.refuse(&names);
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
                self.refused.push(Refused {
                    backend: backend.key.clone(),
                    item: item.id.clone(),
                    reason: "another backend has a resource with this URI".to_owned(),
                });
            }
        }
        // What is named in full is never taken for what only fits a template.
        self.lists
            .resources
            .sort_by_key(|(resource, _)| resource.is_template());
    }

    fn refuse(&mut self, names: &Names) {
        let refused = names.refused().iter().map(|refused| Refused {
            backend: refused.backend.clone(),
            item: refused.item.clone(),
            reason: match &refused.reason {
                Reason::Unnamed => "has no name".to_owned(),
                Reason::Twice => "is listed twice".to_owned(),
                Reason::Reserved => "has a name of the gateway's own tools".to_owned(),
                Reason::Taken(other) => format!("its name is taken by {other:?}"),
            },
        });
        self.refused.extend(refused);
    }
}

fn find<'a>(parts: &'a [Part], key: &BackendKey) -> Option<&'a Part> {
    parts.iter().find(|part| part.backend.key == *key)
}
