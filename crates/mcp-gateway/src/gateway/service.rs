//! Runs the gateway: publishes the backends' lists and applies changes of the configuration.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gateway_access::Admission;
use gateway_store::events::{EventStatus, kind};
use mcp_core::server::{
    Access, AccessItem, Audit, ChangeNotifier, GroupInstructions, Server, ServerItems, TaskStore,
};
use mcp_core::tool::{Effect, ToolError};
use mcp_serve::{OwnPaths, PageData, Registry, SharedSessions};
use serde_json::json;

use super::Gateway;
use crate::audit::RequestAudit;
use crate::catalog::{Catalog, Scope};
use crate::config::{BackendKey, Config, ViewConfig};
use crate::instructions;
use crate::metrics::GatewayMetrics;
use crate::page::GatewayPage;
use crate::tools;

/// Longest time that the first list waits for backends that are being started: many clients read the list once. A child
/// takes 0.2 s, and 2 s and more on a busy machine. Less than the time that the server waits for its service.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(4);
/// The same where other gateways may answer the requests meanwhile.
const SHARED_FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that `doctor` waits for the first start of the backends.
const CHECK_TIMEOUT: Duration = Duration::from_secs(25);
/// Changes of lists are collected for this time and then published together …
const PUBLISH_DEBOUNCE: Duration = Duration::from_millis(200);
/// … and not sooner than this after the last time: a backend whose lists keep changing causes one
/// notification a second.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_millis(800);

impl mcp_serve::Service for Gateway {
    const LOGS: bool = true;
    const RELAYS: bool = true;

    /// The gateway is degraded while a backend is down. The reasons are only in `gateway_status`: this text is
    /// in `/readyz`, which needs no token.
    async fn probe(&self) -> Result<(), ToolError> {
        let mut down: Vec<String> = self
            .backends()
            .values()
            .filter(|backend| !backend.is_up())
            .map(|backend| backend.key.to_string())
            .collect();
        let config = self.config();
        let unusable = config.disabled().filter(|(_, reason)| reason.is_fault());
        down.extend(unusable.map(|(key, _)| key.to_string()));
        if let Some(outage) = self.shared().and_then(|shared| shared.outage()) {
            return Err(ToolError::unavailable(outage));
        }
        if down.is_empty() {
            return Ok(());
        }
        Err(ToolError::unavailable(format!(
            "backends that are not running: {}; gateway_status has the reasons",
            down.join(", ")
        )))
    }

    async fn check(self: Arc<Self>, _: Arc<Server>) -> Result<String, Vec<String>> {
        let config = self.config();
        self.apply(Config::clone(&config));
        let backends = self.backends();
        let started = backends.values().map(|backend| backend.first_start());
        let started = futures_util::future::join_all(started);
        // The problems name those that have not started.
        let _ = tokio::time::timeout(CHECK_TIMEOUT, started).await;
        let unusable = config.disabled().filter(|(_, reason)| reason.is_fault());
        let unusable = unusable.map(|(key, reason)| format!("backends.{key}: {reason}"));
        let down = backends.values().filter(|backend| !backend.is_up());
        let down = down.map(|backend| {
            let error = backend.status().last_error;
            let error = error.unwrap_or_else(|| "it has not started in time".to_owned());
            format!("backends.{}: {error}", backend.key)
        });
        let problems: Vec<String> = unusable.chain(down).collect();
        match problems.is_empty() {
            true => Ok(format!("{} of its backends answer", backends.len())),
            false => Err(problems),
        }
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.signals.changes.clone())
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        self.record(kind::STARTED, EventStatus::Success, json!({}));
        self.apply(Config::clone(&self.config()));
        tokio::join!(
            self.publish(&server),
            self.follow_config(),
            self.follow_state(),
            self.approvals().sweep(),
            async {
                server.closed().await;
                self.approvals().stop();
            }
        );
    }

    fn access(&self) -> Option<Arc<dyn Access>> {
        Some(self.admission()? as Arc<dyn Access>)
    }

    fn audit(&self) -> Option<Arc<dyn Audit>> {
        let log = Arc::clone(&self.signals.log);
        Some(Arc::new(RequestAudit::new(log, Arc::clone(&self.catalog))))
    }

    fn view(&self) -> Option<Arc<str>> {
        self.view.clone()
    }

    fn paths(&self) -> Option<Arc<dyn OwnPaths>> {
        Some(Arc::clone(&self.relay.approvals) as Arc<dyn OwnPaths>)
    }

    fn shared_sessions(&self) -> Option<Arc<dyn SharedSessions>> {
        let shared = self.shared()?;
        Some(Arc::clone(shared) as Arc<dyn SharedSessions>)
    }

    fn task_store(&self) -> Option<Arc<dyn TaskStore>> {
        let shared = self.shared()?;
        Some(Arc::clone(shared) as Arc<dyn TaskStore>)
    }

    fn page(self: Arc<Self>) -> Option<Arc<dyn PageData>> {
        Some(Arc::new(GatewayPage::new(self)))
    }

    async fn ready(&self) {
        if let Some(shared) = self.shared() {
            shared.ready().await;
        }
        self.signals.changes.wait_for_lists().await;
    }

    async fn stop(&self) {
        for backend in self.backends().values() {
            backend.stop();
        }
        let mut supervisors = std::mem::take(&mut *self.supervisors.lock());
        while supervisors.join_next().await.is_some() {}
        self.record(kind::STOPPED, EventStatus::Success, json!({}));
        let (state, log) = (Arc::clone(&self.state), Arc::clone(&self.signals.log));
        // Writes what is still in the queues.
        let shared = self.shared.clone();
        let close = move || {
            if let Some(shared) = shared {
                shared.close();
            }
            state.close();
            log.close();
        };
        let _ = tokio::task::spawn_blocking(close).await;
    }

    fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(GatewayMetrics {
            backends: Arc::clone(&self.backends),
            log: Arc::clone(&self.signals.log),
            durations: self.signals.durations.clone(),
            shared: self.shared.clone(),
        }));
    }
}

impl Gateway {
    /// Publishes the backends' lists whenever they change. The first time it waits for backends that
    /// start quickly, since some clients read the lists only once.
    async fn publish(self: &Arc<Self>, server: &Server) {
        let backends = self.backends();
        let started = backends.values().map(|backend| backend.first_start());
        let started = futures_util::future::join_all(started);
        let mut pins = self.signals.pins.subscribe();
        // Without the result, which is a lock.
        let read = async { drop(pins.wait_for(|entries| entries.are_read).await) };
        let timeout = match self.shared() {
            Some(_) => SHARED_FIRST_LIST_TIMEOUT,
            None => FIRST_LIST_TIMEOUT,
        };
        let _ = tokio::time::timeout(timeout, async { tokio::join!(started, read) }).await;
        self.follow_pins();
        loop {
            let mut catalog = Catalog::new(&self.relay, &self.backends());
            let read_only = server.is_read_only();
            if read_only {
                catalog.keep_read_only();
            }
            let config = self.config();
            catalog.add_views(&config.views, config.search_above);
            let catalog = Arc::new(catalog);
            for refused in catalog.scope(None).into_iter().flat_map(Scope::refused) {
                tracing::debug!(backend = %refused.backend, item = refused.item, "not offered: {}", refused.reason);
            }
            self.report_conflicts(&catalog);
            *self.signals.owners.lock() = Arc::clone(&catalog.owners);
            *self.catalog.lock() = Arc::clone(&catalog);
            self.catalogs.fetch_add(1, Ordering::Relaxed);
            server.publish(self.listed(&catalog, read_only));
            self.signals.changes.lists_published();
            tokio::time::sleep(MIN_PUBLISH_INTERVAL).await;
            self.signals.lists.notified().await;
            tokio::time::sleep(PUBLISH_DEBOUNCE).await;
        }
    }

    /// Logs the resources that several backends list, each conflict once.
    fn report_conflicts(&self, catalog: &Catalog) {
        let before = self.catalog();
        for refused in &catalog.refused {
            let is_conflict = catalog.owners.listing(&refused.item).nth(1).is_some();
            if is_conflict && !before.refused.contains(refused) {
                tracing::warn!(backend = %refused.backend, item = refused.item, "not offered: {}", refused.reason);
            }
        }
    }

    /// Returns the lists for clients. With more tools than `search_above`, the backends' tools are
    /// hidden and the search tools take their place.
    fn listed(self: &Arc<Self>, catalog: &Arc<Catalog>, read_only: bool) -> ServerItems {
        let config = self.config();
        let mut lists = catalog.lists.clone();
        let servers = self.instructions();
        lists.instructions = match servers.as_slice() {
            [(key, text)] if config.backends[key].is_alone => text.clone(),
            servers => merged(servers, |_| true),
        };
        lists.views = catalog
            .views
            .iter()
            .map(|view| view.items.clone())
            .collect();
        if let Some(admission) = self.admission() {
            let views = config.views.clone();
            lists.group_instructions = Some(of_groups(&admission, catalog, views, servers));
            lists.access = Some(admission as Arc<dyn Access>);
        }
        let gateway = Arc::clone(self);
        lists.why_missing = Some(Arc::new(move |tool, view| gateway.why_missing(tool, view)));
        let limit = config.search_above;
        let count = || {
            catalog
                .lists
                .tools
                .iter()
                .filter(|(tool, _)| tool.is_listed)
                .count()
        };
        if limit.is_some_and(|limit| count() > limit) {
            for (tool, _) in &mut lists.tools {
                tool.is_listed = false;
            }
            let mut search = tools::search().bind(self);
            if read_only {
                // `call_tool` calls nothing but tools of the catalog.
                search
                    .iter_mut()
                    .for_each(|(tool, _)| tool.effect = Effect::ReadOnly);
            }
            lists.tools.extend(search);
        }
        lists
    }

    /// The instructions of the backends, as they were in the last handshake of each.
    fn instructions(&self) -> Vec<(BackendKey, String)> {
        let backends = self.backends();
        let servers = backends.iter().filter_map(|(key, backend)| {
            let server = backend.status().server?;
            Some((key.clone(), server.instructions.clone()?))
        });
        servers.collect()
    }

    /// Applies the decisions of other processes about tools.
    async fn follow_state(&self) {
        let mut pins = self.signals.pins.subscribe();
        while pins.changed().await.is_ok() {
            self.follow_pins();
        }
    }

    fn follow_pins(&self) {
        for backend in self.backends().values() {
            backend.follow_pins();
        }
    }

    /// Applies each change of the configuration.
    async fn follow_config(&self) {
        let mut source = self.source.clone();
        loop {
            match source.changed().await {
                Ok(config) => {
                    let backends = config.backends.len();
                    tracing::info!(backends, "applied the changed configuration");
                    self.apply(config);
                    self.record(kind::CONFIG_CHANGED, EventStatus::Success, json!({}));
                }
                Err(reason) => {
                    tracing::warn!(
                        "kept the old configuration; the changed one has an error: {reason}"
                    );
                    let facts = json!({"error": reason.to_string()});
                    self.record(kind::CONFIG_CHANGED, EventStatus::Failure, facts);
                }
            }
        }
    }
}

/// The instructions of the backends that `is_used`.
fn merged(servers: &[(BackendKey, String)], is_used: impl Fn(&BackendKey) -> bool) -> String {
    let used = servers.iter().filter(|(key, _)| is_used(key));
    instructions::merged(used.map(|(key, text)| (key, text.as_str())))
}

/// Returns the instructions for each group: those of its view or of the gateway, and of the backends of which it may
/// use a tool.
fn of_groups(
    admission: &Arc<Admission>,
    catalog: &Arc<Catalog>,
    views: Vec<Arc<ViewConfig>>,
    servers: Vec<(BackendKey, String)>,
) -> GroupInstructions {
    let (admission, catalog) = (Arc::clone(admission), Arc::clone(catalog));
    Arc::new(move |group| {
        let view = admission.view_of(group);
        let own = match view {
            None => instructions::OWN,
            Some(view) => {
                let mut views = views.iter();
                let config = views.find(|config| config.name == view.name);
                config
                    .and_then(|config| config.instructions.as_deref())
                    .unwrap_or_default()
            }
        };
        let scope = catalog.scope(view.map(|view| &*view.name));
        let used = scope.map(|scope| {
            let is_allowed = |tool: &_| admission.allows(group, AccessItem::of_tool(tool));
            scope.backends_of(is_allowed)
        });
        let used = used.unwrap_or_default();
        let is_open = admission.is_open(group);
        let servers = merged(&servers, |key| is_open || used.contains(key));
        let parts = [own, &servers].into_iter().filter(|text| !text.is_empty());
        parts.collect::<Vec<_>>().join("\n")
    })
}
