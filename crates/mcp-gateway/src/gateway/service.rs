//! The gateway at work: it publishes what its backends offer and follows its configuration.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::{ChangeNotifier, Server, ServerItems};
use mcp_core::tool::ToolError;
use mcp_serve::Registry;
use serde_json::{Map, json};

use super::Gateway;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::events::{Status, kind};
use crate::metrics::GatewayMetrics;
use crate::tools;

/// How long the first list waits for backends that are being started.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long changes of lists may gather before they are published …
const PUBLISH_DEBOUNCE: Duration = Duration::from_millis(200);
/// … and how long there is silence after that: a backend that flaps is heard once a second.
const PUBLISH_PAUSE: Duration = Duration::from_millis(800);

impl mcp_serve::Service for Gateway {
    const LOGS: bool = true;
    const RELAYS: bool = true;

    /// The gateway works as long as it runs; how its backends are is told by `gateway_status`.
    async fn probe(&self) -> Result<(), ToolError> {
        let down: Vec<String> = self
            .backends()
            .values()
            .filter(|backend| !backend.is_up())
            .map(|backend| backend.key.to_string())
            .collect();
        if down.is_empty() {
            return Ok(());
        }
        Err(ToolError::unavailable(format!(
            "not every backend runs: {}",
            down.join(", ")
        )))
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.signals.changes.clone())
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        self.record(kind::STARTED, Status::Success, Map::new());
        self.apply(Config::clone(&self.config()));
        tokio::join!(self.publish(&server), self.follow_config());
    }

    async fn ready(&self) {
        // The sender lives as long as `self`.
        let _ = self.published.subscribe().wait_for(|done| *done).await;
    }

    async fn stop(&self) {
        for backend in self.backends().values() {
            backend.stop();
        }
        let mut supervisors = std::mem::take(&mut *self.supervisors.lock());
        while supervisors.join_next().await.is_some() {}
        self.record(kind::STOPPED, Status::Success, Map::new());
        let log = Arc::clone(&self.signals.log);
        // It writes what it still has.
        let _ = tokio::task::spawn_blocking(move || log.close()).await;
    }

    fn register(&self, registry: &mut Registry) {
        let (backends, log) = (Arc::clone(&self.backends), Arc::clone(&self.signals.log));
        registry.register_collector(Box::new(GatewayMetrics { backends, log }));
    }
}

impl Gateway {
    /// Publishes what the backends offer whenever that changes. The first time it waits for those
    /// that start quickly, so that clients that ask only once see them.
    async fn publish(self: &Arc<Self>, server: &Server) {
        let backends = self.backends();
        let tried =
            futures_util::future::join_all(backends.values().map(|backend| backend.tried()));
        let _ = tokio::time::timeout(FIRST_LIST_TIMEOUT, tried).await;
        loop {
            let changes = self.config().tool_changes;
            let catalog = Arc::new(Catalog::new(&self.relay, &self.backends(), changes));
            for refused in &catalog.refused {
                tracing::debug!(backend = %refused.backend, item = refused.item, "not offered: {}", refused.reason);
            }
            *self.catalog.lock() = Arc::clone(&catalog);
            server.publish(self.listed(&catalog));
            self.published.send_replace(true);
            tokio::time::sleep(PUBLISH_PAUSE).await;
            self.signals.lists.notified().await;
            tokio::time::sleep(PUBLISH_DEBOUNCE).await;
        }
    }

    /// Returns what clients list: all of the catalog, or, where that would be too much for a model,
    /// the means to search it.
    fn listed(self: &Arc<Self>, catalog: &Catalog) -> ServerItems {
        let mut lists = catalog.lists.clone();
        let limit = self.config().search_above;
        if limit.is_some_and(|limit| catalog.listed_tools().count() > limit) {
            for (tool, _) in &mut lists.tools {
                tool.is_listed = false;
            }
            lists.tools.extend(tools::search().bind(self));
        }
        lists
    }

    /// Takes over changed configurations.
    async fn follow_config(&self) {
        let mut source = self.source.clone();
        loop {
            match source.changed().await {
                Ok(config) => {
                    tracing::info!(
                        backends = config.backends.len(),
                        "the configuration has changed"
                    );
                    self.apply(config);
                    self.record(kind::CONFIG_CHANGED, Status::Success, Map::new());
                }
                Err(reason) => {
                    tracing::warn!("the changed configuration is refused: {reason}");
                    let facts = Map::from_iter([("error".to_owned(), json!(reason.to_string()))]);
                    self.record(kind::CONFIG_CHANGED, Status::Failure, facts);
                }
            }
        }
    }
}
