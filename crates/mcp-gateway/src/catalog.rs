//! The catalog: the lists of all backends, merged under published names.
//!
//! * [`owners`]: the backend of each resource. [`views`]: the items of each view; [`scope`]: the tools of one view, or all.

mod owners;
mod scope;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use gateway_access::Filter;
use gateway_store::events::KnownArguments;
use gateway_store::search::ToolIndex;
use mcp_core::jsonrpc::quoted;
use mcp_core::server::ServerItems;
use mcp_core::tool::{BoundTool, Effect, TaskSupport, ToolDefinition};

pub(crate) use self::owners::ResourceOwners;
pub(crate) use self::scope::Scope;
use self::views::CatalogOfView;
use crate::backend::{Backend, ListedItem, Snapshot};
use crate::config::BackendKey;
use crate::names::{BackendItems, PublishedItem, PublishedNames, RefusedItem};
use crate::relay::tool::{RelayedTool, Withheld};
use crate::relay::{Relay, prompt, resource};
use crate::sanitise;

/// The backends' items under their published names, and the items that cannot be published.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) lists: ServerItems,
    /// Items that are not published although no rule denies them, for `gateway_status`.
    pub(crate) refused: Vec<RefusedItem>,
    /// The backend of each tool, by its published name …
    backends: Arc<HashMap<String, BackendKey>>,
    /// … of each prompt, and of each resource and template by its URI.
    prompt_backends: HashMap<String, BackendKey>,
    resource_backends: HashMap<String, BackendKey>,
    /// The backend of each resource, also of those of templates.
    pub(crate) owners: Arc<ResourceOwners>,
    /// The items of each view.
    pub(crate) views: Vec<CatalogOfView>,
    /// Made by the first search.
    index: OnceLock<ToolIndex>,
}

/// A backend and its lists at one time.
struct BackendSnapshot {
    backend: Arc<Backend>,
    snapshot: Arc<Snapshot>,
}

/// Selects one list of a snapshot.
type ListOf = fn(&Snapshot) -> &Vec<ListedItem>;

impl Catalog {
    /// Merges the current lists of `backends`. The same lists always give the same catalog, in the
    /// same order.
    pub(crate) fn new(relay: &Relay, backends: &BTreeMap<BackendKey, Arc<Backend>>) -> Self {
        let snapshots = backends.values().map(|backend| BackendSnapshot {
            backend: Arc::clone(backend),
            snapshot: backend.snapshot(),
        });
        let snapshots: Vec<BackendSnapshot> = snapshots.collect();
        let mut catalog = Self::default();
        catalog.add_tools(relay, &snapshots);
        catalog.add_prompts(relay, &snapshots);
        catalog.add_resources(relay, &snapshots);
        catalog
    }

    /// Drops the tools that are not declared read-only: `search_tools` does not find them, and `call_tool`
    /// does not call them.
    pub(crate) fn keep_read_only(&mut self) {
        self.lists
            .tools
            .retain(|(tool, _)| tool.effect == Effect::ReadOnly);
    }

    fn add_tools(&mut self, relay: &Relay, snapshots: &[BackendSnapshot]) {
        let tools: ListOf = |snapshot| &snapshot.tools;
        let mut backends = HashMap::new();
        let names = published_names(snapshots, tools, true);
        self.refused.extend_from_slice(&names.refused);
        // Denied tools can be called as well; the answer is that they are denied.
        for published in &published_names(snapshots, tools, false).published {
            let Some((part, item)) = find(snapshots, tools, published) else {
                continue;
            };
            let is_denied = !part.backend.config.filter.allows(&item.id);
            let held = part.snapshot.held.get(&item.id);
            let withheld = match is_denied {
                true => Some(Withheld::Denied),
                false => held.cloned().map(Withheld::Held),
            };
            let own = part.backend.config.tools.get(&item.id);
            let definition = sanitise::tool(&item.definition).and_then(|definition| {
                let changed = own.and_then(|own| own.applied_to(&definition));
                let definition = changed.unwrap_or(definition);
                let (name, plain) = (published.name.to_string(), published.plain.to_string());
                ToolDefinition::from_backend(name, plain, &definition)
            });
            let mut definition = match definition {
                Err(_) if is_denied => continue,
                Ok(definition) => definition,
                Err(reason) => {
                    self.refuse(&published.backend, &item.id, reason);
                    continue;
                }
            };
            definition.is_listed = withheld.is_none();
            if let Some(Withheld::Held(reason)) = &withheld {
                let reason = format!("is held back: {reason}; see `mcp-gateway pins`");
                self.refuse(&published.backend, &item.id, reason);
            }
            if part.backend.has_tasks() {
                definition.task = TaskSupport::Late;
            }
            if relay.approvals.may_wait(&published.name) {
                definition.continue_as_tasks();
            }
            definition.aliases.extend(published.aliases());
            let tool: Arc<dyn BoundTool> = Arc::new(RelayedTool {
                relay: relay.clone(),
                backend: Arc::clone(&part.backend),
                item: quoted(&published.item).into(),
                published: Arc::clone(&published.name),
                known: KnownArguments::new(&definition.input_schema),
                effect: definition.effect,
                labels: part.backend.labels("tools/call", Some(&published.name)),
                withheld,
            });
            let name = definition.name.clone();
            backends.insert(name, published.backend.clone());
            self.lists.tools.push((definition, tool));
        }
        self.backends = Arc::new(backends);
    }

    fn add_prompts(&mut self, relay: &Relay, snapshots: &[BackendSnapshot]) {
        let prompts: ListOf = |snapshot| &snapshot.prompts;
        let names = published_names(snapshots, prompts, true);
        self.refused.extend_from_slice(&names.refused);
        for published in &names.published {
            let relayed = find(snapshots, prompts, published)
                .and_then(|(part, item)| prompt::relayed(relay, &part.backend, published, item));
            if let Some((prompt, _)) = &relayed {
                let name = prompt.name.to_string();
                self.prompt_backends.insert(name, published.backend.clone());
            }
            self.lists.prompts.extend(relayed);
        }
    }

    /// URIs are published unchanged. One that several backends list is published by none of them.
    fn add_resources(&mut self, relay: &Relay, snapshots: &[BackendSnapshot]) {
        let items = snapshots
            .iter()
            .flat_map(|BackendSnapshot { backend, snapshot }| {
                let items = snapshot.resources.iter().chain(&snapshot.templates);
                let allowed = items.filter(|item| backend.config.filter.allows(&item.id));
                allowed.map(move |item| (backend, item))
            });
        let items: Vec<(&Arc<Backend>, &ListedItem)> = items.collect();
        let mut owners = ResourceOwners::default();
        for (backend, item) in &items {
            owners.add(&backend.key, &item.id, &backend.config.filter);
        }
        let owners = Arc::new(owners);
        let mut taken = BTreeSet::new();
        for (backend, item) in items {
            if owners.owner(&item.id) != Some(&backend.key) {
                let all: Vec<&str> = owners.listing(&item.id).map(BackendKey::as_str).collect();
                let reason = match all.len() {
                    1 => "looks like a rule about the resources of another backend".to_owned(),
                    _ => format!(
                        "the backends {} list it, so none of them offers it; `deny` it in all but one of them",
                        all.join(", ")
                    ),
                };
                self.refuse(&backend.key, &item.id, reason);
            } else if taken.insert(item.id.clone()) {
                let uri = item.id.clone();
                self.resource_backends.insert(uri, backend.key.clone());
                let relayed = resource::relayed(relay, backend, item, &owners);
                self.lists.resources.push(relayed);
            } else {
                self.refuse(&backend.key, &item.id, "is listed twice");
            }
        }
        self.owners = owners;
        // An exact URI is matched before all templates.
        let resources = &mut self.lists.resources;
        resources.sort_by_key(|(resource, _)| resource.is_template());
    }

    fn refuse(&mut self, backend: &BackendKey, item: &str, reason: impl Into<String>) {
        self.refused.push(RefusedItem {
            backend: backend.to_string(),
            item: item.to_owned(),
            reason: reason.into(),
        });
    }
}

/// Publishes the names of one list of all backends; without the denied items if `is_filtered`.
fn published_names(
    snapshots: &[BackendSnapshot],
    list: ListOf,
    is_filtered: bool,
) -> PublishedNames {
    let all = Filter::default();
    PublishedNames::publish(
        snapshots
            .iter()
            .map(|BackendSnapshot { backend, snapshot }| BackendItems {
                backend: &backend.key,
                filter: if is_filtered {
                    &backend.config.filter
                } else {
                    &all
                },
                bare: backend.config.bare,
                is_alone: backend.config.is_alone,
                names: list(snapshot).iter().map(|item| item.id.as_str()).collect(),
            }),
    )
}

/// Returns the item of a published name, and its backend.
fn find<'a>(
    snapshots: &'a [BackendSnapshot],
    list: ListOf,
    published: &PublishedItem,
) -> Option<(&'a BackendSnapshot, &'a ListedItem)> {
    let part = snapshots
        .iter()
        .find(|part| part.backend.key == published.backend)?;
    let mut items = list(&part.snapshot).iter();
    Some((part, items.find(|item| *item.id == *published.item)?))
}
