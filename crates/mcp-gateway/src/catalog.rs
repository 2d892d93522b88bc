//! The catalog: the lists of all backends, merged under published names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use gateway_access::{OWN_TOOLS, View, Viewer};
use gateway_approvals::pins::HoldReason;
use gateway_store::events::{KnownArguments, StoreError};
use gateway_store::search::ToolIndex;
use mcp_core::jsonrpc::quoted;
use mcp_core::prompt::PromptDefinition;
use mcp_core::registry::BoundItems;
use mcp_core::resource::ResourceDefinition;
use mcp_core::server::{AccessItem, Denial, DeniedBy, ServerItems};
use mcp_core::suggestion::suggestion;
use mcp_core::tool::{BoundTool, TaskSupport, ToolDefinition};

use crate::backend::{Backend, INSTRUCTIONS, ListedItem, Snapshot};
use crate::config::BackendKey;
use crate::names::{BackendItems, Claim, PublishedItem, PublishedNames, RefusedItem};
use crate::owners::ResourceOwners;
use crate::relay::{Relay, RelayedTool};
use crate::{relay, sanitise};

/// The backends' items under their published names, and the items that cannot be published.
#[derive(Default)]
pub(crate) struct MergedCatalog {
    pub(crate) lists: ServerItems,
    /// Items that are not published although no rule denies them, for `gateway_status`.
    pub(crate) refused: Vec<RefusedItem>,
    /// The backends whose tools are in `lists`, or in `refused`.
    with_tools: BTreeSet<BackendKey>,
    /// The backend of each tool, and of each prompt, by its published name.
    backends: HashMap<String, BackendKey>,
    prompt_backends: HashMap<String, BackendKey>,
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

impl MergedCatalog {
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

    /// The tools of the view with this name, or all without a name. `None` if there is no such view.
    pub(crate) fn scope(&self, view: Option<&str>) -> Option<Scope<'_>> {
        let view = match view {
            None => None,
            Some(name) => Some(self.views.iter().find(|view| **view.name() == *name)?),
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

    /// The tokens that the listed tools of a backend cost a model.
    pub(crate) fn tokens_of(&self, backend: &BackendKey) -> usize {
        let scope = self.scope(None).into_iter();
        let tools = scope.flat_map(Scope::listed_tools);
        let tools = tools.filter(|tool| self.backend_of(tool) == Some(backend));
        tools.map(ToolDefinition::tokens).sum()
    }

    fn add_tools(&mut self, relay: &Relay, snapshots: &[BackendSnapshot]) {
        let tools: ListOf = |snapshot| &snapshot.tools;
        let (mut backends, mut apps) = (HashMap::new(), Vec::new());
        let names = published_names(snapshots, tools);
        self.refused.extend_from_slice(&names.refused);
        // Denied tools can be called as well; the answer is that they are denied.
        for published in &names.published {
            let Some((part, item)) = find(snapshots, tools, published) else {
                continue;
            };
            let is_denied = !part.backend.config.allows_tool(&item.id);
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
                id_json: quoted(&published.item).into(),
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
        self.backends = backends;
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
        let names = published_names(snapshots, prompts);
        self.refused.extend_from_slice(&names.refused);
        for published in &names.published {
            let relayed = find(snapshots, prompts, published)
                .filter(|(part, item)| part.backend.config.filter.allows(&item.id))
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

/// Publishes the names of one list of all backends.
fn published_names(snapshots: &[BackendSnapshot], list: ListOf) -> PublishedNames {
    let claim = |backend: &Backend, snapshot: &Snapshot, item: &ListedItem| {
        // A prompt may have the name of a tool.
        let is_tool = std::ptr::eq(list(snapshot), &raw const snapshot.tools);
        let held = snapshot.held.get(&item.id).filter(|_| is_tool);
        let is_allowed = match is_tool {
            true => backend.config.allows_tool(&item.id),
            false => backend.config.filter.allows(&item.id),
        };
        match is_allowed {
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
    catalog: &'a MergedCatalog,
    pub(crate) view: Option<&'a CatalogOfView>,
}

/// A tool, and its definition.
pub(crate) type Tool = (ToolDefinition, Arc<dyn BoundTool>);

impl<'a> Scope<'a> {
    /// A tool of the catalog as it is shown here; `None` if it is not in the view.
    pub(crate) fn shown(self, tool: &'a Tool) -> Option<&'a Tool> {
        match self.view {
            None => Some(tool),
            Some(view) => view.tools.get(&tool.0.name),
        }
    }

    /// The tools that are not withheld, in the order of their published names.
    pub(crate) fn listed_tools(self) -> impl Iterator<Item = &'a ToolDefinition> {
        let tools = self.catalog.lists.tools.iter();
        let tools = tools.filter_map(move |tool| self.shown(tool));
        tools.map(|(tool, _)| tool).filter(|tool| tool.is_listed)
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
            Some(view) => (view.resources.len(), view.prompts.len()),
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

    /// The published name of the tool that is called `name` here.
    pub(crate) fn original(self, name: &'a str) -> &'a str {
        let mut tools = self.view.into_iter().flat_map(|view| &view.tools);
        let found = tools.find(|(_, (tool, _))| tool.name == name);
        found.map_or(name, |(original, _)| original)
    }

    /// Returns the tool of the catalog with this name or alias, which may not be in the view.
    fn known(self, name: &'a str) -> Option<&'a Tool> {
        let name = self.original(name);
        let mut tools = self.catalog.lists.tools.iter();
        tools.find(|(tool, _)| is_called(tool, name))
    }

    /// The reason why the caller cannot use a tool that is there, for the operator.
    pub(crate) fn denial(self, name: &'a str, viewer: &Viewer) -> Option<Denial> {
        let (tool, _) = self.known(name)?;
        match viewer.allows(tool) {
            true => self.not_here(Some(&tool.name)),
            false => {
                let reason = viewer.explain(AccessItem::of_tool(tool))?;
                Some(Denial::new(DeniedBy::Role, reason))
            }
        }
    }

    /// The reason why an item that the rules allow is not there, for the operator: a `tool` has another name in the view,
    /// or the item is of a backend that the view does not have.
    pub(crate) fn not_here(self, tool: Option<&str>) -> Option<Denial> {
        let view = self.view?;
        let reason = match tool.and_then(|name| view.tools.get(name)) {
            Some((shown, _)) => format!("it is {} there", shown.name),
            None => "of none of its backends".to_owned(),
        };
        let reason = format!("view {}: denied: {reason}", view.name());
        Some(Denial::new(DeniedBy::View, reason))
    }

    /// Returns the tool with this name or alias.
    pub(crate) fn tool(self, name: &'a str) -> Option<&'a Tool> {
        let tool = self.shown(self.known(name)?)?;
        is_called(&tool.0, name).then_some(tool)
    }

    /// Returns the listed tools that match `query`, the best match first. `catalog` is the one of this scope. The search
    /// is not the work of a worker of the runtime.
    pub(crate) async fn find(
        self,
        catalog: &Arc<MergedCatalog>,
        query: String,
    ) -> Result<Vec<&'a ToolDefinition>, StoreError> {
        let view = self.view.map(|view| Arc::clone(view.name()));
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

/// True if the tool has this name or alias.
fn is_called(tool: &ToolDefinition, name: &str) -> bool {
    tool.name == name || tool.aliases.iter().any(|alias| alias == name)
}

/// The items of one view.
pub(crate) struct CatalogOfView {
    pub(crate) view: Arc<View>,
    /// Its tools as it shows them, by their published names.
    pub(crate) tools: HashMap<String, Tool>,
    pub(crate) resources: BoundItems<ResourceDefinition>,
    pub(crate) prompts: BoundItems<PromptDefinition>,
    /// True if its tools are searched, not listed.
    pub(crate) is_searched: bool,
    /// Tools that it shows as `/mcp` does, since their tables cannot be used.
    pub(crate) unchanged: Vec<RefusedItem>,
    index: OnceLock<ToolIndex>,
}

impl CatalogOfView {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.view.name
    }
}

/// True if one of them has this URI, or is a template for such ones.
pub(crate) fn has_resource(resources: &BoundItems<ResourceDefinition>, uri: &str) -> bool {
    let mut resources = resources.iter().map(|(resource, _)| resource);
    resources.any(|resource| match resource.uri.split_once('{') {
        Some((start, _)) => uri.starts_with(start),
        None => resource.uri == uri,
    })
}

impl MergedCatalog {
    /// The items of a view. With more tools than `search_above` they are searched, not listed.
    pub(crate) fn of_view(&self, view: &Arc<View>, search_above: Option<usize>) -> CatalogOfView {
        let tools = self.lists.tools.iter().filter(|(tool, _)| {
            let key = self.backends.get(&tool.name);
            key.is_some_and(|key| view.has_backend(key.as_str()))
                && view.decide(AccessItem::of_tool(tool), None).is_allowed()
        });
        let mut tools: HashMap<String, Tool> = tools
            .map(|tool| (tool.0.name.clone(), tool.clone()))
            .collect();
        let unchanged = self.rename(view, &mut tools);
        let listed = tools.values().filter(|(tool, _)| tool.is_listed).count();
        let prompts = self.lists.prompts.iter().filter(|(prompt, _)| {
            let key = self.prompt_backends.get(&*prompt.name);
            let item = AccessItem::Prompt(&prompt.name);
            key.is_some_and(|key| view.has_backend(key.as_str()))
                && view.decide(item, None).is_allowed()
        });
        let resources = self.lists.resources.iter().filter(|(resource, _)| {
            let key = self.owners.owner(&resource.uri).map(BackendKey::as_str);
            let item = AccessItem::Resource(&resource.uri);
            // The resources of a template are decided about when they are read.
            key.is_some_and(|key| view.has_backend(key))
                && (resource.is_template() || view.decide(item, key).is_allowed())
        });
        CatalogOfView {
            view: Arc::clone(view),
            prompts: prompts.cloned().collect(),
            resources: resources.cloned().collect(),
            tools,
            is_searched: search_above.is_some_and(|limit| listed > limit),
            unchanged,
            index: OnceLock::new(),
        }
    }

    /// Gives tools their other names in the view. A name that another tool has there is refused, and so is a table for a
    /// tool that its backend does not have. Returns what is refused.
    fn rename(&self, view: &View, tools: &mut HashMap<String, Tool>) -> Vec<RefusedItem> {
        let mut refused = Vec::new();
        for entry in &view.tools {
            let original = &entry.original;
            let mut backends = self.backends.values();
            let backend = self.backends.get(original);
            let backend = backend.or_else(|| backends.find(|key| key.is_prefix_of(original)));
            // Its backend may have no tools yet.
            let Some(backend) = backend else { continue };
            let is_taken = tools.contains_key(&entry.name);
            let shown = match tools.get_mut(original) {
                None if !view.has_backend(backend.as_str()) => continue,
                None => {
                    let known = tools.keys().map(String::as_str);
                    let known = known.filter(|name| backend.is_prefix_of(name));
                    let hint = suggestion(original, known);
                    Err(format!("there is no such tool{hint}"))
                }
                Some(_) if is_taken => Err(format!(
                    "another tool has the name {:?}; it keeps its own",
                    entry.name
                )),
                Some((tool, _)) => tool.renamed(&entry.name).map(|shown| *tool = shown),
            };
            if let Err(reason) = shown {
                refused.push(RefusedItem {
                    backend: backend.to_string(),
                    item: original.clone(),
                    reason: format!("views.{}: {reason}", view.name),
                });
            }
        }
        refused
    }
}
