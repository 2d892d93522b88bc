//! The catalog: the lists of all backends, merged under published names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use gateway_access::{Filter, OWN_TOOLS, SEARCH_TOOLS, View, Viewer};
use gateway_approvals::pins::HoldReason;
use gateway_store::events::{KnownArguments, StoreError};
use gateway_store::search::ToolIndex;
use mcp_core::jsonrpc::quoted;
use mcp_core::server::{
    AccessItem, Denial, DeniedBy, Inclusion, ServerItems, ViewItems, ViewTools,
};
use mcp_core::suggestion::suggestion;
use mcp_core::tool::{BoundTool, Effect, TaskSupport, ToolDefinition};

use crate::backend::{Backend, INSTRUCTIONS, ListedItem, Snapshot};
use crate::config::BackendKey;
use crate::names::{BackendItems, Claim, PublishedItem, PublishedNames, RefusedItem};
use crate::owners::ResourceOwners;
use crate::relay::{Relay, RelayedTool};
use crate::{relay, sanitise};

/// The backends' items under their published names, and the items that cannot be published.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) lists: ServerItems,
    /// Items that are not published although no rule denies them, for `gateway_status`.
    pub(crate) refused: Vec<RefusedItem>,
    /// The backends whose tools are in `lists`, or in `refused`.
    with_tools: BTreeSet<BackendKey>,
    /// The backend of each tool, by its published name …
    backends: Arc<HashMap<String, BackendKey>>,
    /// … of each prompt, and of each resource and template by its URI.
    prompt_backends: HashMap<String, BackendKey>,
    resource_backends: HashMap<String, BackendKey>,
    /// The backend of each resource, also of those of templates.
    pub(crate) owners: Arc<ResourceOwners>,
    /// The items of each view.
    pub(crate) views: Vec<CatalogOfView>,
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
        let with_tools = snapshots
            .iter()
            .filter(|part| !part.snapshot.tools.is_empty())
            .map(|part| part.backend.key.clone());
        let mut catalog = Self {
            with_tools: with_tools.collect(),
            ..Self::default()
        };
        catalog.add_tools(relay, &snapshots);
        catalog.add_prompts(relay, &snapshots);
        catalog.add_resources(relay, &snapshots);
        catalog
    }

    /// Returns true if the tools that this backend has now are not yet in a catalog.
    pub(crate) fn lacks_tools_of(&self, backend: &Backend) -> bool {
        !self.with_tools.contains(&backend.key) && !backend.snapshot().tools.is_empty()
    }

    /// Drops the tools that are not declared read-only: `search_tools` does not find them, and `call_tool`
    /// does not call them.
    pub(crate) fn keep_read_only(&mut self) {
        self.lists
            .tools
            .retain(|(tool, _)| tool.effect == Effect::ReadOnly);
    }

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

    /// The backend of a tool.
    pub(crate) fn backend_of(&self, tool: &ToolDefinition) -> Option<&BackendKey> {
        self.backends.get(tool.original_name())
    }

    fn add_tools(&mut self, relay: &Relay, snapshots: &[BackendSnapshot]) {
        let tools: ListOf = |snapshot| &snapshot.tools;
        let (mut backends, mut apps) = (HashMap::new(), Vec::new());
        let names = published_names(snapshots, tools, true);
        self.refused.extend_from_slice(&names.refused);
        // Denied tools can be called as well; the answer is that they are denied.
        for published in &published_names(snapshots, tools, false).published {
            let Some((part, item)) = find(snapshots, tools, published) else {
                continue;
            };
            let is_denied = !part.backend.config.filter.allows(&item.id);
            let held = part.snapshot.held.get(&item.id).filter(|_| !is_denied);
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
            definition.is_listed = !is_denied && held.is_none();
            if let Some(reason) = held {
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
                listed: Arc::clone(&part.snapshot),
                id: Arc::clone(&published.item),
                item: quoted(&published.item).into(),
                published: Arc::clone(&published.name),
                known: KnownArguments::new(&definition.input_schema),
                effect: definition.effect,
                description: definition.description.as_str().into(),
                labels: part.backend.labels("tools/call", Some(&published.name)),
            });
            let name = definition.name.clone();
            backends.insert(name, published.backend.clone());
            if part.snapshot.has_apps() {
                apps.push((self.lists.tools.len(), item.id.clone()));
            }
            self.lists.tools.push((definition, tool));
        }
        self.backends = Arc::new(backends);
        for BackendSnapshot { backend, snapshot } in snapshots {
            if let Some(reason) = snapshot.held.get(INSTRUCTIONS) {
                let reason = format!("are held back: {reason}; see `mcp-gateway pins`");
                self.refuse(&backend.key, INSTRUCTIONS, reason);
            }
        }
        self.add_names_of_apps(apps);
    }

    /// Lets the apps of a backend call its tools: an app knows them by the names that its backend gives them. A name that
    /// several such backends have, or under which a tool is published, is not one of an app. `apps` has the position of
    /// each tool of these backends, and this name.
    fn add_names_of_apps(&mut self, apps: Vec<(usize, String)>) {
        let tools = &mut self.lists.tools;
        let published: BTreeSet<String> = tools.iter().map(|(tool, _)| tool.name.clone()).collect();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (_, name) in &apps {
            *counts.entry(name.clone()).or_default() += 1;
        }
        for (at, name) in apps {
            let is_own = OWN_TOOLS.contains(&name.as_str());
            if counts[&name] == 1 && !is_own && !published.contains(&name) {
                tools[at].0.aliases.push(name);
            }
        }
    }

    fn add_prompts(&mut self, relay: &Relay, snapshots: &[BackendSnapshot]) {
        let prompts: ListOf = |snapshot| &snapshot.prompts;
        let names = published_names(snapshots, prompts, true);
        self.refused.extend_from_slice(&names.refused);
        for published in &names.published {
            let relayed = find(snapshots, prompts, published)
                .and_then(|(part, item)| relay::prompt(relay, &part.backend, published, item));
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
                let relayed = relay::resource(relay, backend, item, &owners);
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
    let claim = |backend: &Backend, snapshot: &Snapshot, item: &ListedItem| {
        // A prompt may have the name of a tool.
        let is_tool = std::ptr::eq(list(snapshot), &raw const snapshot.tools);
        let held = snapshot.held.get(&item.id).filter(|_| is_tool);
        match backend.config.filter.allows(&item.id) {
            false => Claim::Denied,
            true if held.is_some_and(HoldReason::is_unapproved) => Claim::Unapproved,
            true => Claim::Full,
        }
    };
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
                names: list(snapshot)
                    .iter()
                    .map(|item| (claim(backend, snapshot, item), item.id.as_str()))
                    .collect(),
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

/// The tools of a catalog as the clients of one view know them, whatever their role.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    catalog: &'a Catalog,
    view: Option<&'a CatalogOfView>,
}

/// A tool, and its definition.
type Tool = (ToolDefinition, Arc<dyn BoundTool>);

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
            let key = self.catalog.backend_of(tool);
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
    /// is not the work of a worker of the runtime.
    pub(crate) async fn find(
        self,
        catalog: &Arc<Catalog>,
        query: String,
    ) -> Result<Vec<&'a ToolDefinition>, StoreError> {
        let view = self.view.map(|view| Arc::clone(&view.items.name));
        let catalog = Arc::clone(catalog);
        let search = tokio::task::spawn_blocking(move || match catalog.scope(view.as_deref()) {
            Some(scope) => scope.index()?.search(&query),
            None => Ok(Vec::new()),
        });
        // A search that has panicked finds nothing.
        let found = search.await.unwrap_or_else(|_| Ok(Vec::new()))?;
        let tools: Vec<&ToolDefinition> = self.listed_tools().collect();
        let found = found.into_iter();
        Ok(found.filter_map(|at| tools.get(at).copied()).collect())
    }

    /// The index of its tools, which the first search makes.
    fn index(self) -> Result<&'a ToolIndex, StoreError> {
        let index = self.view.map_or(&self.catalog.index, |view| &view.index);
        if let Some(index) = index.get() {
            return Ok(index);
        }
        let made = ToolIndex::new(self.listed_tools())?;
        Ok(index.get_or_init(|| made))
    }
}

/// The items of one view.
pub(crate) struct CatalogOfView {
    pub(crate) items: ViewItems,
    /// Tools that it shows as `/mcp` does, since their tables cannot be used.
    pub(crate) unchanged: Vec<RefusedItem>,
    index: OnceLock<ToolIndex>,
}

impl Catalog {
    /// Adds the items of `views`. In a view with more tools than `search_above` they are searched, not listed.
    pub(crate) fn add_views(&mut self, views: &[Arc<View>], search_above: Option<usize>) {
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
        view: &Arc<View>,
        search_above: Option<usize>,
        refused: &mut Vec<RefusedItem>,
    ) -> ViewItems {
        let (own, backends) = (Arc::clone(view), Arc::clone(&self.backends));
        let is_in = move |tool: &ToolDefinition| {
            let key = backends.get(tool.name.as_str());
            key.is_some_and(|key| own.has_backend(key.as_str()))
                && own.decide(AccessItem::of_tool(tool), None).is_allowed()
        };
        let changed = self.changed(view, &is_in, refused);
        let tools = || self.lists.tools.iter().map(|(tool, _)| tool);
        let count = tools().filter(|tool| tool.is_listed && is_in(tool)).count();
        let is_searched = search_above.is_some_and(|limit| count > limit);
        let withheld = tools().filter(|tool| !tool.is_listed);
        let withheld: BTreeSet<String> = withheld.map(|tool| tool.name.clone()).collect();
        let includes = move |tool: &ToolDefinition| {
            let name = tool.name.as_str();
            if OWN_TOOLS.contains(&name) {
                return match is_searched || !SEARCH_TOOLS.contains(&name) {
                    true => Inclusion::Listed,
                    false => Inclusion::Out,
                };
            }
            match is_in(tool) {
                false => Inclusion::Out,
                true if is_searched || withheld.contains(name) => Inclusion::Callable,
                true => Inclusion::Listed,
            }
        };
        let prompts = self.lists.prompts.iter().filter(|(prompt, _)| {
            let key = self.prompt_backends.get(&*prompt.name);
            let item = AccessItem::Prompt(&prompt.name);
            key.is_some_and(|key| view.has_backend(key.as_str()))
                && view.decide(item, None).is_allowed()
        });
        let resources = self.lists.resources.iter().filter(|(resource, _)| {
            let key = self.resource_backends.get(&*resource.uri);
            let key = key.map(BackendKey::as_str);
            let item = AccessItem::Resource(&resource.uri);
            // The resources of a template are decided about when they are read.
            key.is_some_and(|key| view.has_backend(key))
                && (resource.is_template() || view.decide(item, key).is_allowed())
        });
        ViewItems {
            name: Arc::clone(&view.name),
            title: view.title.clone(),
            prompts: prompts.cloned().collect(),
            resources: resources.cloned().collect(),
            tools: Arc::new(ViewTools::new(includes, changed)),
        }
    }

    /// The tools that have other names in the view. A name that another tool has there is refused, and so is
    /// a table for a tool that its backend does not have.
    fn changed(
        &self,
        view: &View,
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
            let original = &entry.original;
            let mut backends = self.backends.values();
            let backend = self.backends.get(original);
            let backend = backend.or_else(|| backends.find(|key| key.is_prefix_of(original)));
            // Its backend may have no tools yet.
            let Some(backend) = backend else { continue };
            let shown = match known.get(&**original) {
                None if !view.has_backend(backend.as_str()) => continue,
                None => {
                    let known = known.keys().copied();
                    let known = known.filter(|name| backend.is_prefix_of(name));
                    let hint = suggestion(original, known);
                    Err(format!("there is no such tool{hint}"))
                }
                Some(_) if known.contains_key(&*entry.name) => Err(format!(
                    "another tool has the name {:?}; it keeps its own",
                    entry.name
                )),
                Some((tool, bound)) => tool
                    .in_view(&entry.name, |_| None)
                    .map(|shown| (shown, Arc::clone(bound))),
            };
            match shown {
                Ok(shown) => changed.push(shown),
                Err(reason) => refused.push(RefusedItem {
                    backend: backend.to_string(),
                    item: original.clone(),
                    reason: format!("views.{}: {reason}", view.name),
                }),
            }
        }
        changed
    }
}
