//! The current items of a server.

mod view;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

pub(super) use self::view::CatalogView;
use self::view::View;
use super::access::Access;
use super::tool_catalog::ToolCatalog;
use super::{Caller, Server, ServerChange, ServerFeatures, ServerItems, WhyMissing};
use crate::prompt::PromptKind;
use crate::registry::{BoundItems, ItemKind};
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::tool::{Detail, Effect, ToolError, ToolKind};

/// A snapshot of the items. A request uses the same snapshot to its end.
pub(super) struct Catalog {
    pub(super) tools: ToolCatalog,
    pub(super) resources: BoundItems<ResourceKind>,
    pub(super) prompts: BoundItems<PromptKind>,
    /// Instructions for the model: one for all callers, or one for each group.
    pub(super) instructions: Vec<String>,
    /// `None` if every caller may use everything.
    pub(super) access: Option<Arc<dyn Access>>,
    /// One for each group of callers.
    pub(super) views: Vec<View>,
    why_missing: Option<WhyMissing>,
    fingerprints: Fingerprints,
}

/// Hashes of the lists of all items, which tell whether a list has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fingerprints {
    tools: u64,
    resources: u64,
    prompts: u64,
}

impl Catalog {
    pub(super) fn new(items: ServerItems) -> Self {
        let fingerprints = Fingerprints {
            tools: fingerprint(
                items.tools.iter().filter(|(tool, _)| tool.is_listed),
                |(tool, _)| tool.encode(Detail::Full),
            ),
            resources: fingerprint(&items.resources, |(resource, _)| resource.encode()),
            prompts: fingerprint(&items.prompts, |(prompt, _)| prompt.encode()),
        };
        let instructions = match items.group_instructions.is_empty() {
            true => vec![items.instructions],
            false => items.group_instructions,
        };
        let access = items.access;
        let views = match &access {
            None => vec![View::default()],
            Some(access) => (0..access.groups())
                .map(|group| View::of_group(group, &**access, &items.tools))
                .collect(),
        };
        Self {
            tools: ToolCatalog::new(items.tools),
            resources: items.resources,
            prompts: items.prompts,
            instructions,
            access,
            views,
            why_missing: items.why_missing,
            fingerprints,
        }
    }

    /// The error of a call to the tool `name`, which is not in the catalog but may be later.
    pub(super) fn why_missing(&self, name: &str) -> Option<ToolError> {
        self.why_missing.as_ref()?(name)
    }

    /// The lists that may differ from `before`, for some group of callers.
    fn changes_since(&self, before: &Self) -> impl Iterator<Item = ServerChange> {
        let is_same_access = match (&self.access, &before.access) {
            (None, None) => true,
            // Without the tables of their functions, of which there may be several.
            (Some(one), Some(other)) => std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other)),
            _ => false,
        };
        let (now, then) = (self.fingerprints, before.fingerprints);
        let changed = |differs: bool| differs || !is_same_access;
        let changes = [
            changed(now.tools != then.tools).then_some(ServerChange::Tools),
            changed(now.resources != then.resources).then_some(ServerChange::Resources),
            changed(now.prompts != then.prompts).then_some(ServerChange::Prompts),
        ];
        changes.into_iter().flatten()
    }
}

fn fingerprint<T>(items: impl IntoIterator<Item = T>, encode: impl Fn(T) -> String) -> u64 {
    let mut hasher = DefaultHasher::new();
    for item in items {
        encode(item).hash(&mut hasher);
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
        items.why_missing = more.why_missing;
        items.access = more.access;
        let groups = more.group_instructions.iter();
        items.group_instructions = groups
            .map(|text| joined(&items.instructions, text))
            .collect();
        items.instructions = joined(&items.instructions, &more.instructions);
        let catalog = Arc::new(Catalog::new(items));
        let before = {
            let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&catalog))
        };
        if let Some(changes) = &self.features.changes {
            let changed = catalog.changes_since(&before);
            changed.for_each(|change| changes.announce(change));
        }
    }

    /// True if no tool may change anything (`--read-only`).
    pub fn is_read_only(&self) -> bool {
        self.features.read_only
    }

    /// True if there is a tool of this name now; toolsets and `--read-only` leave some out.
    pub fn has_tool(&self, name: &str) -> bool {
        self.catalog().tools.position(name).is_some()
    }

    /// True if callers are put into groups, of which some may use less than others.
    pub fn has_groups(&self) -> bool {
        self.catalog().access.is_some()
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
