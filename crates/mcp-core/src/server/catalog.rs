//! The current items of a server.

mod tools;
mod view;

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use self::tools::ToolCatalog;
pub(super) use self::view::CatalogView;
use self::view::GroupLists;
use super::access::Access;
use super::changes::ViewName;
use super::{
    Caller, GroupInstructions, Identity, Inclusion, Principal, Server, ServerChange,
    ServerFeatures, ServerItems, ViewItems, WhyMissing,
};
use crate::prompt::PromptKind;
use crate::registry::{BoundItems, ItemKind};
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::tool::{Detail, Effect, ToolDefinition, ToolKind};

/// A snapshot of the items. A request uses the same snapshot to its end.
pub(super) struct Catalog {
    pub(super) tools: ToolCatalog,
    pub(super) resources: BoundItems<ResourceKind>,
    pub(super) prompts: BoundItems<PromptKind>,
    /// Instructions for the model, if none are made for each group of callers.
    instructions: String,
    group_instructions: Option<GroupInstructions>,
    /// `None` if every caller may use everything.
    pub(super) access: Option<Arc<dyn Access>>,
    /// One for each group of callers, and one for those without a group.
    groups: Vec<GroupLists>,
    views: Vec<ViewCatalog>,
    why_missing: Option<WhyMissing>,
    fingerprints: Fingerprints,
}

pub(super) struct ViewCatalog {
    items: ViewItems,
    /// Whether it has a tool, in the order of the catalog.
    included: Box<[Inclusion]>,
    /// The `serverInfo` in the `_meta` of every modern result, as JSON.
    modern_meta: String,
    fingerprints: Fingerprints,
}

/// Hashes of the lists of all items, which tell whether a list has changed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Fingerprints {
    tools: u64,
    resources: u64,
    prompts: u64,
}

impl Catalog {
    pub(super) fn new(items: ServerItems, identity: &Identity) -> Self {
        let resources = &items.resources;
        let tool_hashes: Box<[u64]> = match items.views.is_empty() {
            true => Box::default(),
            false => items.tools.iter().map(|(tool, _)| hash_of(tool)).collect(),
        };
        let listed = items.tools.iter().filter(|(tool, _)| tool.is_listed);
        let fingerprints = Fingerprints {
            tools: fingerprint(listed, |(tool, _)| hash_of(tool)),
            ..Fingerprints::new(resources, &items.prompts)
        };
        let views = items.views.into_iter();
        let views = views.map(|view| ViewCatalog::new(view, &items.tools, &tool_hashes, identity));
        let groups = 1 + items.access.as_ref().map_or(1, |access| access.groups());
        Self {
            views: views.collect(),
            tools: ToolCatalog::new(items.tools),
            resources: items.resources,
            prompts: items.prompts,
            instructions: items.instructions,
            group_instructions: items.group_instructions,
            access: items.access,
            groups: (0..groups).map(|_| GroupLists::default()).collect(),
            why_missing: items.why_missing,
            fingerprints,
        }
    }

    /// Each list that may differ from `before`, for some group of callers, with the views in which it may.
    fn changes_since(
        &self,
        before: &Self,
    ) -> impl Iterator<Item = (ServerChange, Arc<[ViewName]>)> {
        let (mut tools, mut resources, mut prompts) = (Vec::new(), Vec::new(), Vec::new());
        let mut compare = |now: Fingerprints, then: Fingerprints, view: ViewName| {
            let name = view.as_deref();
            let decisions = |catalog: &Self| {
                let access = catalog.access.as_ref();
                access.map(|access| access.fingerprint(name))
            };
            let is_same_access = decisions(self) == decisions(before);
            let add = |views: &mut Vec<ViewName>, differs: bool| {
                views.extend((differs || !is_same_access).then(|| view.clone()));
            };
            add(&mut tools, now.tools != then.tools);
            add(&mut resources, now.resources != then.resources);
            add(&mut prompts, now.prompts != then.prompts);
        };
        compare(self.fingerprints, before.fingerprints, None);
        let names = self.views.iter().chain(&before.views);
        let names: BTreeSet<&Arc<str>> = names.map(|view| &view.items.name).collect();
        for name in names {
            let of = |catalog: &Self| {
                let view = catalog.view(name).map(|at| &catalog.views[at]);
                view.map_or_else(Fingerprints::default, |view| view.fingerprints)
            };
            compare(of(self), of(before), Some(Arc::clone(name)));
        }
        let changes = [
            (ServerChange::Tools, tools),
            (ServerChange::Resources, resources),
            (ServerChange::Prompts, prompts),
        ];
        let changes = changes.into_iter().filter(|(_, views)| !views.is_empty());
        changes.map(|(change, views)| (change, views.into()))
    }

    fn view(&self, name: &str) -> Option<usize> {
        self.views.iter().position(|view| *view.items.name == *name)
    }
}

impl ViewCatalog {
    /// `tools` are those of the server, with their hashes.
    fn new(
        items: ViewItems,
        tools: &BoundItems<ToolKind>,
        hashes: &[u64],
        identity: &Identity,
    ) -> Self {
        let included: Box<[Inclusion]> = tools
            .iter()
            .map(|(tool, _)| items.tools.includes(tool))
            .collect();
        let listed = tools.iter().zip(hashes).zip(&included);
        let listed = listed.filter(|(_, included)| **included == Inclusion::Listed);
        let fingerprints = Fingerprints {
            tools: fingerprint(listed, |(((tool, _), hash), _)| {
                match items.tools.is_changed(tool) {
                    true => hash_of(items.tools.definition(tool)),
                    false => *hash,
                }
            }),
            ..Fingerprints::new(&items.resources, &items.prompts)
        };
        Self {
            modern_meta: identity.modern_meta(items.title.as_deref()),
            items,
            included,
            fingerprints,
        }
    }
}

impl Fingerprints {
    fn new(resources: &BoundItems<ResourceKind>, prompts: &BoundItems<PromptKind>) -> Self {
        Self {
            tools: 0,
            resources: fingerprint(resources, |(resource, _)| resource.encode()),
            prompts: fingerprint(prompts, |(prompt, _)| prompt.encode()),
        }
    }
}

fn hash_of(tool: &ToolDefinition) -> u64 {
    fingerprint([tool], |tool| tool.encode(Detail::Full))
}

fn fingerprint<T, H: Hash>(items: impl IntoIterator<Item = T>, part: impl Fn(T) -> H) -> u64 {
    let mut hasher = DefaultHasher::new();
    for item in items {
        part(item).hash(&mut hasher);
    }
    hasher.finish()
}

/// Adds the items of `more` whose names are not taken in `own`.
fn add<K: ItemKind>(own: &mut BoundItems<K>, mut more: BoundItems<K>) {
    let is_free = |id: &str| own.iter().all(|(other, _)| K::id(other) != id);
    more.retain(|(definition, _)| is_free(K::id(definition)));
    own.append(&mut more);
}

/// Joins two texts by a line end, if neither is empty.
fn joined(one: &str, other: &str) -> String {
    let separator = match one.is_empty() || other.is_empty() {
        true => "",
        false => "\n",
    };
    [one, separator, other].concat()
}

impl Server {
    /// Lists `more` after the server's own items, in place of what was published before, and
    /// announces the lists that have changed. An item with the name of one of the server's own is
    /// left out, so that nothing shadows those. A read-only server leaves out tools that change anything.
    pub fn publish(&self, mut more: ServerItems) {
        if self.is_read_only() {
            more.tools
                .retain(|(tool, _)| tool.effect == Effect::ReadOnly);
        }
        let mut items = self.own_items.clone();
        add::<ToolKind>(&mut items.tools, more.tools);
        add::<ResourceKind>(&mut items.resources, more.resources);
        add::<PromptKind>(&mut items.prompts, more.prompts);
        items.why_missing = match (items.why_missing, more.why_missing) {
            (Some(own), Some(more)) => Some(Arc::new(move |tool: &str, view: Option<&str>| {
                own(tool, view).or_else(|| more(tool, view))
            })),
            (own, more) => own.or(more),
        };
        items.access = more.access;
        items.group_instructions = more.group_instructions;
        items.views = more.views;
        items.instructions = joined(&items.instructions, &more.instructions);
        let catalog = Arc::new(Catalog::new(items, &self.identity));
        let before = {
            let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&catalog))
        };
        if let Some(changes) = &self.features.changes {
            let changed = catalog.changes_since(&before);
            changed.for_each(|(change, views)| changes.announce_in(change, views));
        }
    }

    /// The timeout of a tool call.
    pub fn call_timeout(&self) -> std::time::Duration {
        self.settings.call_timeout
    }

    /// True if no tool may change anything (`--read-only`).
    pub fn is_read_only(&self) -> bool {
        self.features.read_only
    }

    /// True if there is a tool of this name now; toolsets and `--read-only` leave some out.
    pub fn has_tool(&self, name: &str) -> bool {
        self.catalog().tools.position(name).is_some()
    }

    /// True if the role of a token counts.
    pub fn has_roles(&self) -> bool {
        let catalog = self.catalog();
        catalog
            .access
            .as_ref()
            .is_some_and(|access| access.has_roles())
    }

    /// The tokens that the definitions of all listed tools cost a model, about: four bytes are one.
    pub fn listed_tokens(&self) -> usize {
        self.catalog().tools.listed_bytes() / 4
    }

    /// True if it relays items of other servers.
    pub fn relays(&self) -> bool {
        self.features.relays
    }

    /// True if there are views.
    pub fn has_views(&self) -> bool {
        !self.catalog().views.is_empty()
    }

    /// The names of the views for callers whose token belongs to this principal.
    pub fn views(&self, principal: Option<&Principal>) -> Vec<Arc<str>> {
        let catalog = self.catalog();
        let names = catalog.views.iter().map(|view| &view.items.name);
        let access = catalog.access.as_ref();
        let is_there = |name: &&Arc<str>| {
            access.is_some_and(|access| access.group(principal, Some(name)).is_some())
        };
        names.filter(is_there).cloned().collect()
    }

    /// The view with this name, if there is one for callers whose token belongs to this principal.
    pub fn view(&self, principal: Option<&Principal>, name: &str) -> Option<Arc<str>> {
        let catalog = self.catalog();
        let view = &catalog.views[catalog.view(name)?];
        catalog.access.as_ref()?.group(principal, Some(name))?;
        Some(Arc::clone(&view.items.name))
    }

    /// The current catalog with all items.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current catalog as this caller sees it.
    pub(super) fn catalog_of(&self, caller: &Caller) -> CatalogView {
        CatalogView::new(
            self.catalog(),
            caller.principal().map(|principal| &**principal),
            caller.view().map(|view| &**view),
        )
    }

    pub(super) fn has_resources(&self) -> bool {
        self.features.relays || !self.catalog().resources.is_empty()
    }

    pub(super) fn has_prompts(&self) -> bool {
        self.features.relays || !self.catalog().prompts.is_empty()
    }

    /// The `ServerCapabilities` of the specification.
    pub(super) fn capabilities(&self) -> Value {
        let ServerFeatures {
            changes,
            logging,
            experimental,
            relays,
            ..
        } = &self.features;
        let list = |with_subscriptions: bool| match (changes.is_some(), with_subscriptions) {
            (true, true) => json!({"listChanged": true, "subscribe": true}),
            (true, false) => json!({"listChanged": true}),
            (false, _) => json!({}),
        };
        let catalog = self.catalog();
        let mut capabilities = json!({"tools": list(false)});
        if self.has_resources() {
            capabilities["resources"] = list(true);
        }
        if self.has_prompts() {
            capabilities["prompts"] = list(false);
        }
        let completes = |(resource, _): &(ResourceDefinition, _)| resource.is_template();
        if *relays || !catalog.prompts.is_empty() || catalog.resources.iter().any(completes) {
            capabilities["completions"] = json!({});
        }
        if *logging {
            capabilities["logging"] = json!({});
        }
        if !experimental.is_empty() {
            capabilities["experimental"] = json!(experimental);
        }
        capabilities
    }
}
