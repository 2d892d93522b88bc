//! What is offered at the moment: all lists, written once, and what answers for their items.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use super::catalogue::Catalogue;
use super::{Change, Lists, Offer, Server};
use crate::jsonrpc::Json;
use crate::prompt::PromptKind;
use crate::registry::{BoundItems, Kind};
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::tool::ToolKind;

/// One state of the lists. A request works with the state that it has found.
pub(super) struct Offered {
    pub(super) catalogue: Catalogue,
    pub(super) resources: BoundItems<ResourceKind>,
    pub(super) prompts: BoundItems<PromptKind>,
    /// The results of `resources/list`, `resources/templates/list` and `prompts/list`.
    pub(super) resource_list: Json,
    pub(super) template_list: Json,
    pub(super) prompt_list: Json,
}

impl Offered {
    pub(super) fn new(lists: Lists) -> Self {
        let Lists {
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
            catalogue: Catalogue::new(tools),
            resources,
            prompts,
        }
    }

    /// Which lists are not what they were.
    fn changes_since(&self, before: &Self) -> impl Iterator<Item = Change> {
        let same = |one: &Json, other: &Json| one.as_str() == other.as_str();
        let tools = same(&self.catalogue.full, &before.catalogue.full);
        let resources = same(&self.resource_list, &before.resource_list)
            && same(&self.template_list, &before.template_list);
        let prompts = same(&self.prompt_list, &before.prompt_list);
        [
            (!tools).then_some(Change::Tools),
            (!resources).then_some(Change::Resources),
            (!prompts).then_some(Change::Prompts),
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
fn add<K: Kind>(own: &mut BoundItems<K>, mut more: BoundItems<K>) {
    let is_free = |id: &str| own.iter().all(|(other, _)| K::id(other) != id);
    more.retain(|(definition, _)| is_free(K::id(definition)));
    own.append(&mut more);
}

impl Server {
    /// Offers `more` beside what the server has offered from its start, in place of what was
    /// published before, and announces the lists that have changed by it. An item that has the name
    /// of one of the server's own is not offered: nothing shadows those.
    pub fn publish(&self, more: Lists) {
        let mut lists = self.own.clone();
        add::<ToolKind>(&mut lists.tools, more.tools);
        add::<ResourceKind>(&mut lists.resources, more.resources);
        add::<PromptKind>(&mut lists.prompts, more.prompts);
        let offered = Arc::new(Offered::new(lists));
        let before = {
            let mut current = self.offered.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&offered))
        };
        let Some(changes) = &self.offer.changes else {
            return;
        };
        for change in offered.changes_since(&before) {
            changes.announce(change);
        }
    }

    /// True if a tool of this name is offered at the moment: toolsets and `--read-only` leave some
    /// out.
    pub fn has_tool(&self, name: &str) -> bool {
        self.offered().catalogue.get(name).is_some()
    }

    /// What is offered at the moment.
    pub(super) fn offered(&self) -> Arc<Offered> {
        Arc::clone(&self.offered.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn has_resources(&self) -> bool {
        self.offer.relays || !self.offered().resources.is_empty()
    }

    pub(super) fn has_prompts(&self) -> bool {
        self.offer.relays || !self.offered().prompts.is_empty()
    }

    /// The `ServerCapabilities`: what is offered, and nothing else.
    pub(super) fn capabilities(&self) -> Value {
        let Offer {
            changes,
            logging,
            experimental,
            relays,
            ..
        } = &self.offer;
        let list = |with_subscriptions: bool| match (changes.is_some(), with_subscriptions) {
            (true, true) => json!({"listChanged": true, "subscribe": true}),
            (true, false) => json!({"listChanged": true}),
            (false, _) => json!({}),
        };
        let offered = self.offered();
        let mut capabilities = json!({"tools": list(false)});
        if self.has_resources() {
            capabilities["resources"] = list(true);
        }
        if self.has_prompts() {
            capabilities["prompts"] = list(false);
        }
        let completes = |(resource, _): &(ResourceDefinition, _)| resource.is_template();
        if *relays || !offered.prompts.is_empty() || offered.resources.iter().any(completes) {
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
