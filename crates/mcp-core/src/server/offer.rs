//! What a server offers, bound to its service.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use crate::method::BoundMethod;
use crate::prompt::{BoundPrompt, PromptDefinition};
use crate::resource::{BoundResource, ResourceDefinition};
use crate::tool::{BoundTool, Definition};

/// Changes that a slow listener may lag behind before it misses some.
const QUEUE: usize = 256;

/// Everything that clients can list.
#[derive(Default)]
pub struct Offer {
    /// Tools, in order.
    pub tools: Vec<(Definition, Arc<dyn BoundTool>)>,
    /// Resources and templates of resources, in order.
    pub resources: Vec<(ResourceDefinition, Arc<dyn BoundResource>)>,
    /// Prompts, in order.
    pub prompts: Vec<(PromptDefinition, Arc<dyn BoundPrompt>)>,
    /// Methods of the product's own.
    pub methods: Vec<(&'static str, Arc<dyn BoundMethod>)>,
    /// Capabilities that the specification does not know, by name (seed 004).
    pub experimental: Map<String, Value>,
    /// True if calls send log messages to the client.
    pub logging: bool,
    /// Where changes are announced; `None` if nothing ever changes.
    pub changes: Option<Changes>,
}

impl Offer {
    /// The `ServerCapabilities`: what is offered, and nothing else.
    pub(super) fn capabilities(&self) -> Value {
        let changes = self.changes.is_some();
        let list = |with_subscriptions: bool| match (changes, with_subscriptions) {
            (true, true) => json!({"listChanged": true, "subscribe": true}),
            (true, false) => json!({"listChanged": true}),
            (false, _) => json!({}),
        };
        let mut capabilities = json!({"tools": list(false)});
        if !self.resources.is_empty() {
            capabilities["resources"] = list(true);
        }
        if !self.prompts.is_empty() {
            capabilities["prompts"] = list(false);
        }
        if !self.prompts.is_empty()
            || self
                .resources
                .iter()
                .any(|(resource, _)| resource.is_template())
        {
            capabilities["completions"] = json!({});
        }
        if self.logging {
            capabilities["logging"] = json!({});
        }
        if !self.experimental.is_empty() {
            capabilities["experimental"] = json!(self.experimental);
        }
        capabilities
    }
}

/// Something that clients may have cached has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// What the resource with this URI holds.
    Resource(String),
}

impl Change {
    /// The method of the notification that tells of it.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
        }
    }

    /// The parameters of that notification.
    pub(super) fn params(&self) -> Value {
        match self {
            Self::Resource(uri) => json!({"uri": uri}),
            _ => json!({}),
        }
    }
}

/// Tells every listening client of changes.
#[derive(Clone, Debug)]
pub struct Changes(broadcast::Sender<Change>);

impl Changes {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self(broadcast::channel(QUEUE).0)
    }

    /// Tells those who listen.
    pub fn announce(&self, change: Change) {
        // Without listeners there is nobody to tell.
        let _ = self.0.send(change);
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<Change> {
        self.0.subscribe()
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}
