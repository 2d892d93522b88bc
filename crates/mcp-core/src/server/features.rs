//! The features of a server, bound to its service.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Audit, ChangeNotifier, ServerItems, TaskStore};
use crate::registry::BoundItems;

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
    pub methods: BoundItems<&'static str>,
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
