//! The current items of a server, with their encoded lists.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use super::tool_catalog::ToolCatalog;
use super::{Server, ServerChange, ServerFeatures, ServerItems, WhyMissing};
use crate::jsonrpc::Json;
use crate::prompt::PromptKind;
use crate::registry::{BoundItems, ItemKind};
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::tool::{Effect, ToolError, ToolKind};

/// A snapshot of the items and lists. A request uses the same snapshot to its end.
pub(super) struct Catalog {
    pub(super) tools: ToolCatalog,
    pub(super) resources: BoundItems<ResourceKind>,
    pub(super) prompts: BoundItems<PromptKind>,
    /// Instructions for the model; empty for none.
    pub(super) instructions: String,
    why_missing: Option<WhyMissing>,
    /// The results of `resources/list`, `resources/templates/list` and `prompts/list`.
    pub(super) resource_list: Json,
    pub(super) template_list: Json,
    pub(super) prompt_list: Json,
}

impl Catalog {
    pub(super) fn new(items: ServerItems) -> Self {
        let (resources, prompts) = (items.resources, items.prompts);
        let resource_list = |name: &str, templates: bool| {
            let definitions = resources.iter().map(|(definition, _)| definition);
            let listed = definitions.filter(|definition| definition.is_template() == templates);
            list(name, listed.map(ResourceDefinition::encode))
        };
        let encoded_prompts = prompts.iter().map(|(prompt, _)| prompt.encode());
        Self {
            resource_list: resource_list("resources", false),
            template_list: resource_list("resourceTemplates", true),
            prompt_list: list("prompts", encoded_prompts),
            tools: ToolCatalog::new(items.tools),
            instructions: items.instructions,
            why_missing: items.why_missing,
            resources,
            prompts,
        }
    }

    /// The error of a call to the tool `name`, which is not in the catalog but may be later.
    pub(super) fn why_missing(&self, name: &str) -> Option<ToolError> {
        self.why_missing.as_ref()?(name)
    }

    /// The lists that differ from `before`.
    fn changes_since(&self, before: &Self) -> impl Iterator<Item = ServerChange> {
        let differs = |one: &Json, other: &Json| one.as_str() != other.as_str();
        let tools = differs(&self.tools.full, &before.tools.full);
        let resources = differs(&self.resource_list, &before.resource_list)
            || differs(&self.template_list, &before.template_list);
        let prompts = differs(&self.prompt_list, &before.prompt_list);
        let changes = [
            tools.then_some(ServerChange::Tools),
            resources.then_some(ServerChange::Resources),
            prompts.then_some(ServerChange::Prompts),
        ];
        changes.into_iter().flatten()
    }
}

/// A result with one member: an array of encoded items.
fn list(name: &str, items: impl Iterator<Item = String>) -> Json {
    let items: Vec<String> = items.collect();
    Json::Owned(format!(r#"{{"{name}":[{}]}}"#, items.join(","))).shared()
}

/// Adds the items of `more` whose names are not taken in `own`.
fn add<K: ItemKind>(own: &mut BoundItems<K>, mut more: BoundItems<K>) {
    let is_free = |id: &str| own.iter().all(|(other, _)| K::id(other) != id);
    more.retain(|(definition, _)| is_free(K::id(definition)));
    own.append(&mut more);
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
        if !items.instructions.is_empty() && !more.instructions.is_empty() {
            items.instructions.push('\n');
        }
        items.instructions.push_str(&more.instructions);
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
        self.catalog().tools.get(name).is_some()
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
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
