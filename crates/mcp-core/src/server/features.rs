//! What a server offers, bound to its service.

use serde_json::{Map, Value};

use super::ChangeNotifier;
use crate::method::MethodKind;
use crate::prompt::PromptKind;
use crate::registry::BoundItems;
use crate::resource::ResourceKind;
use crate::tool::ToolKind;

/// What a server offers from its start.
#[derive(Default)]
pub struct ServerFeatures {
    /// What clients can list, and always find.
    pub items: ServerItems,
    /// Methods of the product's own.
    pub methods: BoundItems<MethodKind>,
    /// Capabilities that the specification does not know, by name (seed 004).
    pub experimental: Map<String, Value>,
    /// True if calls send log messages to the client.
    pub logging: bool,
    /// Where changes are announced; `None` if nothing ever changes.
    pub changes: Option<ChangeNotifier>,
    /// True for a server that passes on what others offer: it declares resources and prompts even
    /// while it has none, and its calls know how their request came ([`crate::tool::OriginalRequest`]).
    pub relays: bool,
}

/// Everything that clients can list, in order.
#[derive(Clone, Default)]
pub struct ServerItems {
    /// Tools.
    pub tools: BoundItems<ToolKind>,
    /// Resources and templates of resources.
    pub resources: BoundItems<ResourceKind>,
    /// Prompts.
    pub prompts: BoundItems<PromptKind>,
}
