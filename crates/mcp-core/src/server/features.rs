//! The features of a server, bound to its service.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Access, Audit, ChangeNotifier, TaskStore};
use crate::method::MethodKind;
use crate::prompt::PromptKind;
use crate::registry::BoundItems;
use crate::resource::ResourceKind;
use crate::tool::{ToolError, ToolKind};

/// The features of a server at its start.
#[derive(Default)]
pub struct ServerFeatures {
    /// Publishes no tools that change anything. `items` are not filtered.
    pub read_only: bool,
    /// Tools, resources and prompts that are always listed.
    pub items: ServerItems,
    /// Records requests; `None` for no records.
    pub audit: Option<Arc<dyn Audit>>,
    /// Keeps tasks for the other processes that serve the same clients; `None` for one process alone.
    pub task_store: Option<Arc<dyn TaskStore>>,
    /// Custom methods.
    pub methods: BoundItems<MethodKind>,
    /// Capabilities outside of the specification, by name (seed 004).
    pub experimental: Map<String, Value>,
    /// True if calls send log messages to the client.
    pub logging: bool,
    /// Announces changes; `None` if nothing changes.
    pub changes: Option<ChangeNotifier>,
    /// True for a server that relays items of other servers. It declares resources and prompts even
    /// while it has none, and its calls carry their [`OriginalRequest`](super::OriginalRequest).
    pub relays: bool,
}

/// The items that clients can list, in order, and what belongs to them: those of a server, or of a group of callers.
#[derive(Clone, Default)]
pub struct ServerItems {
    /// The title of the server; `None` for none.
    pub title: Option<String>,
    /// Tools.
    pub tools: BoundItems<ToolKind>,
    /// Resources and templates of resources.
    pub resources: BoundItems<ResourceKind>,
    /// Prompts.
    pub prompts: BoundItems<PromptKind>,
    /// Instructions for the model; empty for none.
    pub instructions: String,
    /// Chooses the items of each caller, among the server's own ones too; `None` if every caller may use all.
    pub access: Option<Arc<dyn Access>>,
    /// Explains unknown tools; `None` if there is nothing to explain.
    pub why_missing: Option<WhyMissing>,
}

/// Returns the error of a call to a tool that cannot be listed at the moment, by the tool's name; `None` if there is no
/// such tool.
pub type WhyMissing = Arc<dyn Fn(&str) -> Option<ToolError> + Send + Sync>;
