//! The gateway's state: its configuration, its backends, their catalog and the event log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use gateway_access::{Admission, CallCounts, Viewer};
use gateway_approvals::approvals::{ApprovalRules, Approvals};
use gateway_approvals::pins::{self, Pins};
use gateway_store::Database;
use gateway_store::events::{Event, EventStatus, StoreLocation, kind};
use gateway_store::state::{EntryChange, EntryKind, Expected, StateStore};
use mcp_core::metrics::Durations;
use mcp_core::server::{Access, ChangeNotifier, Server, ServerItems, TaskStore};
use mcp_core::tool::{Call, Effect, ToolError};
use mcp_serve::{Checkup, OwnPaths, Registry, ServiceParts, SharedSessions, TokenOwners};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::access::CatalogAccess;
use crate::audit::RequestAudit;
use crate::backend::{Backend, BackendContext};
use crate::catalog::{MergedCatalog, Scope};
use crate::config::{BackendKey, Config, ConfigError, DisabledReason};
use crate::metrics::GatewayMetrics;
use crate::owners::ResourceOwners;
use crate::page::GatewayPage;
use crate::relay::Relay;
use crate::unmatched::UnmatchedRule;
use crate::{config, instructions, tools, unmatched};

/// The service behind the gateway's server.
pub(crate) struct Gateway {
    pub(crate) source: config::ConfigSource,
    pub(crate) database: Arc<Database>,
    context: BackendContext,
    pub(crate) relay: Relay,
    /// The backends that are not disabled. Shared with the metrics.
    backends: Arc<Mutex<BTreeMap<BackendKey, Arc<Backend>>>>,
    /// One task for each backend, which starts and restarts it.
    supervisors: Mutex<JoinSet<()>>,
    catalog: Arc<Mutex<Arc<MergedCatalog>>>,
    /// The number of catalogs until now.
    pub(crate) catalogs: AtomicU64,
    config: Mutex<Arc<Config>>,
    /// Judges calls; `None` without roles and views. The same while these are.
    admission: Mutex<Option<Arc<Admission>>>,
    counts: Arc<CallCounts>,
    /// The owners of tokens; `None` if not all are known.
    tokens: Mutex<Option<TokenOwners>>,
    /// Why the changed configuration is not used; `None` if it is.
    pub(crate) refused_config: Mutex<Option<String>>,
    /// The changed settings that only a restart applies.
    pub(crate) needs_restart: Mutex<Vec<String>>,
    /// The rules that match nothing, by the catalog that was published last.
    unmatched: Mutex<Vec<UnmatchedRule>>,
    /// The view of the client over stdio.
    view: Option<Arc<str>>,
}

impl Gateway {
    /// Opens the databases of a gateway with the backends of `config`, none of them started. `source` reports changes of
    /// the configuration.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn open(
        config: Config,
        source: config::ConfigSource,
        view: Option<Arc<str>>,
    ) -> anyhow::Result<Self> {
        let (events, retention) = (config.events.clone(), config.retention.clone());
        let database = Database::start(events, retention, Some(mcp_serve::process_id()));
        let database = Arc::new(database.context("cannot start the database")?);
        let (log, state) = (Arc::clone(&database.log), Arc::clone(&database.state));
        let context = BackendContext {
            lists: Arc::new(Notify::new()),
            changes: ChangeNotifier::new(),
            log: Arc::clone(&log),
            pins: Arc::new(Pins::new(Arc::clone(&state))),
            owners: Arc::default(),
            probe_interval: config.probe_interval,
            durations: Durations::default(),
        };
        let counts = Arc::default();
        let admission = admission(&config, &counts, &context.owners);
        let approvals = Arc::new(Approvals::new(state, log));
        Ok(Self {
            source,
            database,
            context,
            relay: Relay::new(approvals),
            backends: Arc::default(),
            supervisors: Mutex::default(),
            catalog: Arc::default(),
            catalogs: AtomicU64::new(0),
            config: Mutex::new(Arc::new(config)),
            admission: Mutex::new(admission),
            counts,
            tokens: Mutex::default(),
            refused_config: Mutex::default(),
            needs_restart: Mutex::default(),
            unmatched: Mutex::default(),
            view,
        })
    }

    /// Finds the rules of a configuration that match nothing of what the backends list.
    pub(crate) fn find_unmatched(
        &self,
        config: &Config,
        catalog: &MergedCatalog,
    ) -> Vec<UnmatchedRule> {
        let owners = self.tokens.lock().clone();
        let owners = owners.map(|owners| owners());
        unmatched::find(config, catalog, &self.backends(), owners.as_deref())
    }

    /// The reason why the decisions of people do not hold; `None` if they do.
    pub(crate) fn lost_decisions(&self) -> Option<String> {
        let backends = self.backends();
        let held = backends.values().map(|backend| {
            let snapshot = backend.snapshot();
            let reasons = snapshot.held.values();
            reasons.filter(|reason| reason.is_of_store()).count()
        });
        let held: usize = held.sum();
        match self.context.pins.is_read() {
            false if held == 0 && !self.relay.approvals.has_rules() => None,
            false => Some(format!(
                "the store of decisions cannot be read: {held} tools are held back, and calls that need a person are refused"
            )),
            true => (held > 0).then(|| {
                format!(
                    "the store of decisions was lost or damaged: {held} tools are held back until they are approved again \
                     (mcp-gateway pins); calls that waited for a person have ended"
                )
            }),
        }
    }

    pub(crate) fn backends(&self) -> BTreeMap<BackendKey, Arc<Backend>> {
        self.backends.lock().clone()
    }

    /// The catalog that was published last.
    pub(crate) fn catalog(&self) -> Arc<MergedCatalog> {
        Arc::clone(&self.catalog.lock())
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock())
    }

    /// Judges calls; `None` without roles and views.
    pub(crate) fn admission(&self) -> Option<Arc<Admission>> {
        self.admission.lock().clone()
    }

    /// The caller of one of the gateway's own tools.
    pub(crate) fn viewer(&self, call: &Call) -> Viewer {
        Viewer::new(self.admission(), call)
    }

    /// Records an event of the gateway itself.
    pub(crate) fn record(&self, event: &'static str, status: EventStatus, facts: Value) {
        self.database.log.record(Event::new(event, status, facts));
    }

    /// Starts and stops backends so that they match `config`, which `source` has read. A backend whose configuration is
    /// unchanged is not touched.
    fn apply(&self, mut config: Config, source: &config::ConfigSource) {
        let before = self.config();
        if before.roles == config.roles {
            config.roles.clone_from(&before.roles);
        }
        if before.roles != config.roles || before.views != config.views {
            *self.admission.lock() = admission(&config, &self.counts, &self.context.owners);
        }
        self.relay.approvals.set_rules(ApprovalRules {
            roles: config.roles.clone(),
            admission: self.admission(),
            config: config.approvals.clone(),
        });
        let recorded = config.record.clone();
        self.database
            .log
            .set_recorded(Arc::new(move |tool, argument| {
                let mut rules = recorded.iter();
                rules.any(|(tools, arguments)| tools.matches(tool) && arguments.matches(argument))
            }));
        let mut backends = self.backends.lock();
        backends.retain(|key, backend| {
            let is_unchanged = config.backends.get(key) == Some(&backend.config);
            if !is_unchanged {
                backend.stop();
                self.context.durations.forget(key.as_str());
            }
            is_unchanged
        });
        for (key, wanted) in &config.backends {
            if wanted.disabled.is_some() || backends.contains_key(key) {
                continue;
            }
            let backend = Backend::new(key.clone(), wanted.clone(), self.context.clone());
            backend.record(kind::BACKEND_REGISTERED, EventStatus::Success, None);
            self.supervisors
                .lock()
                .spawn(Arc::clone(&backend).supervise());
            backends.insert(key.clone(), backend);
        }
        let before = std::mem::replace(&mut *self.config.lock(), Arc::new(config.clone()));
        // The first configuration is applied to itself.
        let is_first = before.backends == config.backends;
        for (key, reason) in config.disabled() {
            let was = before.backends.get(key);
            if !is_first && was.and_then(|backend| backend.disabled.as_ref()) == Some(reason) {
                continue;
            }
            let status = if reason.is_fault() {
                let (place, advice) = (source.place_of(reason), reason.advice(key));
                let advice = advice.unwrap_or_default();
                tracing::warn!(backend = %key, "not used: {place}: {reason}. {advice}");
                EventStatus::Failure
            } else {
                tracing::info!(backend = %key, "not used: {reason}");
                EventStatus::Success
            };
            let key = key.as_str();
            let facts = json!({"backend": key, "namespace": key, "reason": reason.to_string()});
            self.record(kind::BACKEND_DISABLED, status, facts);
        }
        self.context.lists.notify_one();
    }

    /// Returns the reason why a backend cannot be called, for a tool that is not published while its
    /// backend is not used or down. The name is only compared with the prefixes of the backends.
    pub(crate) fn why_missing(&self, tool: &str, view: Option<&str>) -> Option<ToolError> {
        let config = self.config();
        let view = match view {
            None => None,
            Some(name) => Some(config.view(name)?),
        };
        let tool = view.map_or(tool, |view| view.original(tool));
        let mut configured = config.backends.iter();
        let (key, backend) =
            configured.find(|(key, backend)| backend.is_alone || key.is_prefix_of(tool))?;
        if view.is_some_and(|view| !view.has_backend(key.as_str())) {
            return None;
        }
        if let Some(reason) = &backend.disabled {
            return Some(not_used(key, reason));
        }
        let backend = self.backends.lock().get(key).cloned()?;
        (!backend.is_up()).then(|| backend.down(&backend.status()))
    }
}

fn admission(
    config: &Config,
    counts: &Arc<CallCounts>,
    owners: &Arc<Mutex<Arc<ResourceOwners>>>,
) -> Option<Arc<Admission>> {
    let owners = Arc::clone(owners);
    let owner = move |uri: &str| {
        let owners = Arc::clone(&owners.lock());
        owners.owner(uri).map(BackendKey::shared)
    };
    let roles = config.roles.clone();
    let views = config.views.clone();
    let has_rules = roles.is_some() || !views.is_empty();
    let admission = || Admission::new(roles, views, Arc::clone(counts), Arc::new(owner));
    has_rules.then(|| Arc::new(admission()))
}

/// The error of a request for a backend that is not used.
pub(crate) fn not_used(key: &BackendKey, reason: &DisabledReason) -> ToolError {
    ToolError::unavailable(format!(
        "The backend {key} is not used: {reason}. It starts when the configuration is corrected."
    ))
}

/// The key of the entry with the id. No backend has a key without a slash.
const KEY: &str = "store";

/// The name of the file is that of the store with this at its end.
const SUFFIX: &str = ".known";

/// Waits until the store is read, and compares it with the file beside it. Returns the backends whose tools a lost store
/// knew: all of them if this one is not the store of the last run, and those that have listed none since. `None` if the
/// gateway stops.
async fn lost_backends(state: &StateStore, config: &Config) -> Option<BTreeSet<String>> {
    let mut entries = state.subscribe();
    entries.wait_for(|entries| entries.are_read).await.ok()?;
    let mut lost = pins::read_lost(&state.entries());
    let Some(file) = mark(&config.events) else {
        return Some(lost);
    };
    let noted = std::fs::read_to_string(&file).ok();
    let noted = noted.map(|text| text.trim().to_owned());
    // After the file: a gateway that starts at the same moment has stored its id before it writes the file. A failure
    // leaves what is known.
    let _ = state.refresh().await;
    let stored = stored_id(state);
    let is_lost = noted.is_some() && noted != stored;
    if is_lost {
        tracing::error!(
            "the store of decisions was lost or damaged: it is not the one of the last run"
        );
        lost.extend(config.backends.keys().map(ToString::to_string));
    }
    let id = match stored {
        Some(id) => id,
        None => {
            let id = Uuid::new_v4().simple().to_string();
            let change = EntryChange::store(EntryKind::Pin, KEY.to_owned(), &id, Expected::Missing);
            match state.change(vec![change]).await {
                Ok(true) => id,
                // Another gateway was faster.
                Ok(false) => stored_id(state).unwrap_or_default(),
                Err(_) => return Some(lost),
            }
        }
    };
    // The file names the lost store until this one knows what that means.
    let marks = lost.iter().map(|backend| pins::store_lost(backend));
    if is_lost && state.change(marks.collect()).await.is_err() {
        return Some(lost);
    }
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    if noted.as_ref() != Some(&id)
        && let Err(error) = folder.and_then(|()| std::fs::write(&file, format!("{id}\n")))
    {
        let file = file.display();
        tracing::warn!(%file, %error, "a loss of the store would not be noticed: its file cannot be written");
    }
    Some(lost)
}

fn stored_id(state: &StateStore) -> Option<String> {
    state.entries().get(EntryKind::Pin, KEY)?.read()
}

/// The file with the id of the store; `None` for a store in memory, or without a folder for state.
fn mark(store: &StoreLocation) -> Option<PathBuf> {
    let mut name = match store {
        StoreLocation::Memory => return None,
        StoreLocation::File(path) => path.as_os_str().to_owned(),
        StoreLocation::Postgres(address) => {
            // Another password is no other database.
            let database = address
                .rsplit_once('@')
                .map_or(&**address, |(_, rest)| rest);
            let [a, b, c, d, ..] = hmac_sha256::Hash::hash(database.as_bytes());
            let number = u32::from_be_bytes([a, b, c, d]);
            let name = format!("mcp-gateway/postgres-{number:08x}");
            mcp_serve::state_folder()?.join(name).into_os_string()
        }
    };
    name.push(SUFFIX);
    Some(name.into())
}

/// Longest time that the first list waits for backends that are being started: many clients read the list once. A child
/// takes 0.2 s, and 2 s and more on a busy machine. Less than the time that the server waits for its service.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(4);
/// The same where other gateways may answer the requests meanwhile.
const SHARED_FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that `doctor` waits for the first start of the backends.
const CHECK_TIMEOUT: Duration = Duration::from_secs(25);
/// How long the check waits for a backend to say whether it is degraded.
const DEGRADED_TIMEOUT: Duration = Duration::from_secs(3);
/// Changes of lists are collected for this time and then published together …
const PUBLISH_DEBOUNCE: Duration = Duration::from_millis(200);
/// … and not sooner than this after the last time: a backend whose lists keep changing causes one
/// notification a second.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_millis(800);
/// Interval until pins that could not be stored are tried again.
const STORE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl mcp_serve::Service for Gateway {
    const LOGS: bool = true;
    const RELAYS: bool = true;

    /// The gateway is degraded while a backend is down. The reasons are only in `gateway_status`: this text is
    /// in `/readyz`, which needs no token.
    async fn probe(&self) -> Result<(), ToolError> {
        if let Some(outage) = self
            .database
            .shared
            .as_ref()
            .and_then(|shared| shared.outage())
        {
            return Err(ToolError::unavailable(outage));
        }
        if let Some(lost) = self.lost_decisions() {
            return Err(ToolError::unavailable(lost));
        }
        let (backends, config) = (self.backends(), self.config());
        // A bridge has no `gateway_status`.
        let alone = backends.values().find(|backend| backend.config.is_alone);
        if let Some(backend) = alone.filter(|backend| !backend.is_up()) {
            return Err(backend.down(&backend.status()));
        }
        let down = backends.iter().filter(|(_, backend)| !backend.is_up());
        let unusable = config.disabled().filter(|(_, reason)| reason.is_fault());
        let keys = down.map(|(key, _)| key).chain(unusable.map(|(key, _)| key));
        let down: Vec<&str> = keys.map(BackendKey::as_str).collect();
        if down.is_empty() {
            return Ok(());
        }
        Err(ToolError::unavailable(format!(
            "backends that are not running: {}; gateway_status has the reasons",
            down.join(", ")
        )))
    }

    async fn check(self: Arc<Self>, _: Arc<Server>) -> Checkup {
        let config = self.config();
        self.apply(Config::clone(&config), &self.source);
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
        let unmatched = self.find_unmatched(&config, &MergedCatalog::new(&self.relay, &backends));
        let (open, others): (Vec<_>, Vec<_>) = unmatched.iter().partition(|rule| rule.opens);
        let open = open.into_iter().map(ToString::to_string);
        let problems: Vec<String> = unusable.chain(down).chain(open).collect();
        let up = backends.values().filter(|backend| backend.is_up());
        let asked = up.map(|backend| async {
            // One that does not tell must not cost the findings about the others.
            let reason = tokio::time::timeout(DEGRADED_TIMEOUT, backend.degraded());
            let reason = reason.await.ok().flatten()?;
            Some(format!("backends.{} is degraded: {reason}", backend.key))
        });
        let degraded = futures_util::future::join_all(asked).await;
        let degraded: Vec<String> = degraded.into_iter().flatten().collect();
        let answering = backends.len() - degraded.len();
        let others = others.into_iter().map(ToString::to_string);
        Checkup {
            answer: (problems.is_empty() && (answering > 0 || degraded.is_empty()))
                .then(|| format!("{answering} of its backends answer")),
            warnings: degraded.into_iter().chain(others).collect(),
            problems,
        }
    }

    fn follow_tokens(&self, owners: TokenOwners) {
        *self.tokens.lock() = Some(owners);
    }

    fn changes(&self) -> Option<ChangeNotifier> {
        Some(self.context.changes.clone())
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        self.record(kind::STARTED, EventStatus::Success, json!({}));
        self.apply(Config::clone(&self.config()), &self.source);
        tokio::join!(
            self.publish(&server),
            self.follow_config(),
            self.follow_state(),
            self.relay.approvals.sweep(),
            async {
                server.closed().await;
                self.relay.approvals.stop();
            }
        );
    }

    fn parts(self: &Arc<Self>) -> ServiceParts {
        let access = self.admission().map(|admission| CatalogAccess {
            admission,
            catalog: Arc::default(),
            servers: Vec::new(),
            why_missing: Arc::new(|_, _| None),
        });
        let log = Arc::clone(&self.database.log);
        let (sessions, tasks) = (self.database.shared.clone(), self.database.shared.clone());
        ServiceParts {
            access: access.map(|access| Arc::new(access) as Arc<dyn Access>),
            audit: Some(Arc::new(RequestAudit::new(log, Arc::clone(&self.catalog)))),
            paths: Some(Arc::clone(&self.relay.approvals) as Arc<dyn OwnPaths>),
            shared_sessions: sessions.map(|shared| shared as Arc<dyn SharedSessions>),
            task_store: tasks.map(|shared| shared as Arc<dyn TaskStore>),
            page: Some(Arc::new(GatewayPage::new(Arc::clone(self)))),
            view: self.view.clone(),
        }
    }

    async fn ready(&self) {
        if let Some(shared) = &self.database.shared {
            shared.ready().await;
        }
        self.context.changes.wait_for_lists().await;
    }

    async fn stop(&self) {
        for backend in self.backends().values() {
            backend.stop();
        }
        let mut supervisors = std::mem::take(&mut *self.supervisors.lock());
        while supervisors.join_next().await.is_some() {}
        self.record(kind::STOPPED, EventStatus::Success, json!({}));
        let database = Arc::clone(&self.database);
        // Writes what still waits.
        let _ = tokio::task::spawn_blocking(move || database.close()).await;
    }

    fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(GatewayMetrics {
            backends: Arc::clone(&self.backends),
            log: Arc::clone(&self.database.log),
            durations: self.context.durations.clone(),
            shared: self.database.shared.clone(),
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
        let read = self.context.pins.store_is_read();
        let timeout = match self.database.shared {
            Some(_) => SHARED_FIRST_LIST_TIMEOUT,
            None => FIRST_LIST_TIMEOUT,
        };
        let _ = tokio::time::timeout(timeout, async { tokio::join!(started, read) }).await;
        self.follow_pins();
        loop {
            let mut catalog = MergedCatalog::new(&self.relay, &self.backends());
            let read_only = server.is_read_only();
            if read_only {
                // `search_tools` does not find the others, and `call_tool` does not call them.
                let tools = &mut catalog.lists.tools;
                tools.retain(|(tool, _)| tool.effect == Effect::ReadOnly);
            }
            let config = self.config();
            let views = config.views.iter();
            let views = views.map(|view| catalog.of_view(view, config.search_above));
            catalog.views = views.collect();
            let catalog = Arc::new(catalog);
            for refused in catalog.scope(None).into_iter().flat_map(Scope::refused) {
                tracing::debug!(backend = %refused.backend, item = refused.item, "not offered: {}", refused.reason);
            }
            self.report_conflicts(&catalog);
            self.report_unmatched(self.find_unmatched(&config, &catalog));
            *self.context.owners.lock() = Arc::clone(&catalog.owners);
            *self.catalog.lock() = Arc::clone(&catalog);
            for (key, backend) in self.backends() {
                let tokens = &backend.metrics.listed_tokens;
                tokens.store(catalog.tokens_of(&key), Ordering::Relaxed);
            }
            self.catalogs.fetch_add(1, Ordering::Relaxed);
            server.publish(self.listed(&catalog, read_only));
            self.context.changes.lists_published();
            tokio::time::sleep(MIN_PUBLISH_INTERVAL).await;
            self.context.lists.notified().await;
            tokio::time::sleep(PUBLISH_DEBOUNCE).await;
        }
    }

    /// Logs the resources that several backends list, each conflict once.
    fn report_conflicts(&self, catalog: &MergedCatalog) {
        let before = self.catalog();
        for refused in &catalog.refused {
            let is_conflict = catalog.owners.listing(&refused.item).nth(1).is_some();
            if is_conflict && !before.refused.contains(refused) {
                tracing::warn!(backend = %refused.backend, item = refused.item, "not offered: {}", refused.reason);
            }
        }
    }

    /// Logs the rules that match nothing, each once.
    fn report_unmatched(&self, found: Vec<UnmatchedRule>) {
        let before = std::mem::replace(&mut *self.unmatched.lock(), found.clone());
        for rule in found.iter().filter(|rule| !before.contains(rule)) {
            tracing::warn!("{rule}");
        }
    }

    /// The first rule of a changed configuration that matches nothing and leaves something open, unless it is in the
    /// configuration of now as well: a backend may have removed a tool.
    fn opening_rule(&self, config: &Config) -> Option<UnmatchedRule> {
        let catalog = self.catalog();
        let known = self.find_unmatched(&self.config(), &catalog);
        let is_known = |rule: &UnmatchedRule| {
            let mut known = known.iter();
            known.any(|other| (&other.field, &other.text) == (&rule.field, &rule.text))
        };
        let found = self.find_unmatched(config, &catalog).into_iter();
        let mut found = found.filter(|rule| rule.opens);
        found.find(|rule| !is_known(rule))
    }

    /// Returns the lists for clients. With more tools than `search_above`, the backends' tools are
    /// hidden and the search tools take their place.
    fn listed(self: &Arc<Self>, catalog: &Arc<MergedCatalog>, read_only: bool) -> ServerItems {
        let config = self.config();
        let mut lists = catalog.lists.clone();
        let servers = self.instructions();
        lists.instructions = match servers.as_slice() {
            [(key, text)] if config.backends[key].is_alone => text.clone(),
            servers => instructions::merged(servers.iter().map(|(key, text)| (key, &**text))),
        };
        let gateway = Arc::clone(self);
        match self.admission() {
            Some(admission) => {
                lists.access = Some(Arc::new(CatalogAccess {
                    admission,
                    catalog: Arc::clone(catalog),
                    servers,
                    why_missing: Arc::new(move |tool, view| gateway.why_missing(tool, view)),
                }));
            }
            None => lists.why_missing = Some(Arc::new(move |tool| gateway.why_missing(tool, None))),
        }
        let is_listed = lists.tools.iter().filter(|(tool, _)| tool.is_listed);
        let count = is_listed.count();
        if config.search_above.is_some_and(|limit| count > limit) {
            for (tool, _) in &mut lists.tools {
                tool.is_listed = false;
            }
            let mut search = tools::search().bind(self);
            if read_only {
                // `call_tool` calls nothing but tools of the catalog.
                for (tool, _) in &mut search {
                    tool.effect = Effect::ReadOnly;
                }
            }
            lists.tools.extend(search);
        }
        lists
    }

    /// The instructions of the backends, as they were in the last handshake of each. Those that are held back are left out.
    fn instructions(&self) -> Vec<(BackendKey, String)> {
        let backends = self.backends();
        let servers = backends
            .iter()
            .filter_map(|(key, backend)| Some((key.clone(), backend.instructions()?)));
        servers.collect()
    }

    /// Applies the decisions of other processes about tools.
    async fn follow_state(&self) {
        let Some(lost) = lost_backends(&self.database.state, &self.config()).await else {
            return;
        };
        self.context.pins.set_read(lost);
        let mut pins = self.context.pins.subscribe();
        loop {
            self.follow_pins();
            // Also without a change: pins that could not be stored are stored then.
            let changed = tokio::time::timeout(STORE_RETRY_INTERVAL, pins.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
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
            let opening_rule = |config: &Config| {
                let rule = self.opening_rule(config)?;
                let error = ConfigError::new(&[&rule.field], rule.text);
                Some(ConfigError {
                    line: rule.line,
                    ..error
                })
            };
            match source.changed(opening_rule).await {
                Ok(config) => {
                    *self.refused_config.lock() = None;
                    let backends = config.backends.len();
                    tracing::info!(backends, "applied the changed configuration");
                    let waiting = source.needs_restart();
                    if !waiting.is_empty() {
                        let waiting = waiting.join(", ");
                        tracing::warn!("a restart is needed for the changes of: {waiting}");
                    }
                    self.needs_restart.lock().clone_from(&waiting);
                    self.apply(config, &source);
                    self.record(kind::CONFIG_CHANGED, EventStatus::Success, json!({}));
                }
                Err(reason) => {
                    tracing::warn!(
                        "kept the old configuration; the changed one has an error: {reason}"
                    );
                    let reason = reason.to_string();
                    let facts = json!({"error": reason});
                    *self.refused_config.lock() = Some(reason);
                    self.record(kind::CONFIG_CHANGED, EventStatus::Failure, facts);
                }
            }
        }
    }
}
