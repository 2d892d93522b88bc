//! What is offered at the moment: all lists, written once, and what answers for their items.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use super::tool_catalog::ToolCatalog;
use super::{Server, ServerChange, ServerFeatures, ServerItems};
use crate::jsonrpc::Json;
use crate::prompt::PromptKind;
use crate::registry::{BoundItems, ItemKind};
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::tool::ToolKind;

/// One state of the lists. A request works with the state that it has found.
pub(super) struct Catalog {
    pub(super) tools: ToolCatalog,
    pub(super) resources: BoundItems<ResourceKind>,
    pub(super) prompts: BoundItems<PromptKind>,
    /// The results of `resources/list`, `resources/templates/list` and `prompts/list`.
    pub(super) resource_list: Json,
    pub(super) template_list: Json,
    pub(super) prompt_list: Json,
}

impl Catalog {
    pub(super) fn new(lists: ServerItems) -> Self {
        let ServerItems {
            tools,
            resources,
            prompts,
        } = lists;
        let listed = |name: &str, templates: bool| {
            let definitions = resources.iter().map(|(definition, _)| definition);
            list(
                name,
                definitions
                    .filter(|definition| definition.is_template() == templates)
                    .map(ResourceDefinition::encode),
            )
        };
        Self {
            resource_list: listed("resources", false),
            template_list: listed("resourceTemplates", true),
            prompt_list: list(
                "prompts",
                prompts.iter().map(|(definition, _)| definition.encode()),
            ),
            tools: ToolCatalog::new(tools),
            resources,
            prompts,
        }
    }

    /// Which lists are not what they were.
    fn changes_since(&self, before: &Self) -> impl Iterator<Item = ServerChange> {
        let same = |one: &Json, other: &Json| one.as_str() == other.as_str();
        let tools = same(&self.tools.full, &before.tools.full);
        let resources = same(&self.resource_list, &before.resource_list)
            && same(&self.template_list, &before.template_list);
        let prompts = same(&self.prompt_list, &before.prompt_list);
        [
            (!tools).then_some(ServerChange::Tools),
            (!resources).then_some(ServerChange::Resources),
            (!prompts).then_some(ServerChange::Prompts),
        ]
        .into_iter()
        .flatten()
    }
}

/// A result with one member: a list of what is JSON already.
fn list(name: &str, items: impl Iterator<Item = String>) -> Json {
    let items: Vec<String> = items.collect();
    Json::Owned(format!(r#"{{"{name}":[{}]}}"#, items.join(","))).shared()
}

/// Adds the items of `more` that have none of the names in `own`.
fn add<K: ItemKind>(own: &mut BoundItems<K>, mut more: BoundItems<K>) {
    let is_free = |id: &str| own.iter().all(|(other, _)| K::id(other) != id);
    more.retain(|(definition, _)| is_free(K::id(definition)));
    own.append(&mut more);
}

impl Server {
    /// Offers `more` beside what the server has offered from its start, in place of what was
    /// published before, and announces the lists that have changed by it. An item that has the name
    /// of one of the server's own is not offered: nothing shadows those.
    pub fn publish(&self, more: ServerItems) {
        let mut lists = self.own_items.clone();
        add::<ToolKind>(&mut lists.tools, more.tools);
        add::<ResourceKind>(&mut lists.resources, more.resources);
        add::<PromptKind>(&mut lists.prompts, more.prompts);
        let catalog = Arc::new(Catalog::new(lists));
        let before = {
            let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&catalog))
        };
        let Some(changes) = &self.features.changes else {
            return;
        };
        for change in catalog.changes_since(&before) {
            changes.announce(change);
        }
    }

    /// True if a tool of this name is offered at the moment: toolsets and `--read-only` leave some
    /// out.
    pub fn has_tool(&self, name: &str) -> bool {
        self.catalog().tools.get(name).is_some()
    }

    /// What is offered at the moment.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn has_resources(&self) -> bool {
        self.features.relays || !self.catalog().resources.is_empty()
    }

    pub(super) fn has_prompts(&self) -> bool {
        self.features.relays || !self.catalog().prompts.is_empty()
    }

    /// The `ServerCapabilities`: what is offered, and nothing else.
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
