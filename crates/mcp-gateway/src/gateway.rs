//! The gateway's state: its configuration, its backends, their catalog and the event log.

mod service;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use gateway_access::{Admission, CallCounts, Viewer};
use gateway_approvals::approvals::{ApprovalRules, Approvals};
use gateway_approvals::pins::Pins;
use gateway_store::events::{Event, EventLog, EventStatus, RecordedArguments, kind};
use gateway_store::shared::SharedTables;
use gateway_store::state::StateStore;
use mcp_core::metrics::Durations;
use mcp_core::server::ChangeNotifier;
use mcp_core::tool::{Call, ToolError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::backend::{Backend, Signals};
use crate::catalog::{Catalog, ResourceOwners};
use crate::config::{self, BackendConfig, BackendKey, Config, DisabledReason};
use crate::relay::Relay;

/// The service behind the gateway's server.
pub(crate) struct Gateway {
    source: config::ConfigSource,
    state: Arc<StateStore>,
    /// Sessions and tasks of the gateways on its database; `None` for a database of one gateway.
    shared: Option<Arc<SharedTables>>,
    signals: Signals,
    relay: Relay,
    /// The backends that are not disabled. Shared with the metrics.
    backends: Arc<Mutex<BTreeMap<BackendKey, Arc<Backend>>>>,
    /// One task for each backend, which starts and restarts it.
    supervisors: Mutex<JoinSet<()>>,
    catalog: Arc<Mutex<Arc<Catalog>>>,
    /// The number of catalogs until now.
    catalogs: AtomicU64,
    config: Mutex<Arc<Config>>,
    /// Judges calls; `None` without roles and views. The same while these are.
    admission: Mutex<Option<Arc<Admission>>>,
    counts: Arc<CallCounts>,
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
        let shared = SharedTables::start(&config.events);
        let shared = shared.context("cannot start the shared tables")?;
        let log = EventLog::start(config.events.clone(), config.retention.clone());
        let log = Arc::new(log.context("cannot start the event log")?);
        let state = StateStore::start(config.events.clone());
        let state = Arc::new(state.context("cannot start the state store")?);
        let signals = Signals {
            lists: Arc::new(Notify::new()),
            changes: ChangeNotifier::new(),
            log: Arc::clone(&log),
            pins: Arc::new(Pins::new(Arc::clone(&state))),
            owners: Arc::default(),
            probe_interval: config.probe_interval,
            durations: Durations::default(),
        };
        let counts = Arc::default();
        let admission = admission(&config, &counts, &signals.owners);
        let approvals = Arc::new(Approvals::new(Arc::clone(&state), Arc::clone(&log)));
        Ok(Self {
            source,
            state,
            shared: shared.map(Arc::new),
            signals,
            relay: Relay::new(log, approvals),
            backends: Arc::default(),
            supervisors: Mutex::default(),
            catalog: Arc::default(),
            catalogs: AtomicU64::new(0),
            config: Mutex::new(Arc::new(config)),
            admission: Mutex::new(admission),
            counts,
            view,
        })
    }

    pub(crate) fn backends(&self) -> BTreeMap<BackendKey, Arc<Backend>> {
        self.backends.lock().clone()
    }

    /// The catalog that was published last.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.lock())
    }

    /// Judges the calls that need a person.
    pub(crate) fn approvals(&self) -> &Approvals {
        &self.relay.approvals
    }

    /// Sessions and tasks of the gateways on its database; `None` for a database of one gateway.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedTables>> {
        self.shared.as_ref()
    }

    /// The decisions of people.
    pub(crate) fn state(&self) -> &StateStore {
        &self.state
    }

    /// The file of the configuration.
    pub(crate) fn file(&self) -> Option<String> {
        self.source.file()
    }

    /// A number that changes with every published catalog.
    pub(crate) fn catalog_number(&self) -> u64 {
        self.catalogs.load(Ordering::Relaxed)
    }

    pub(crate) fn log(&self) -> &EventLog {
        &self.signals.log
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
        self.signals.log.record(Event::new(event, status, facts));
    }

    /// Starts and stops backends so that they match `config`. A backend whose configuration is
    /// unchanged is not touched.
    fn apply(&self, mut config: Config) {
        let before = self.config();
        if before.roles == config.roles {
            config.roles.clone_from(&before.roles);
        }
        if before.roles != config.roles || before.views != config.views {
            *self.admission.lock() = admission(&config, &self.counts, &self.signals.owners);
        }
        self.approvals().set_rules(ApprovalRules {
            roles: config.roles.clone(),
            admission: self.admission(),
            config: config.approvals.clone(),
        });
        self.log().set_recorded(recorded(&config));
        let mut backends = self.backends.lock();
        backends.retain(|key, backend| {
            let is_unchanged = config.backends.get(key) == Some(&backend.config);
            if !is_unchanged {
                backend.stop();
                self.signals.durations.forget(key.as_str());
            }
            is_unchanged
        });
        for (key, wanted) in &config.backends {
            if wanted.disabled.is_some() || backends.contains_key(key) {
                continue;
            }
            let backend = Backend::new(key.clone(), wanted.clone(), self.signals.clone());
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
            if is_first || was.and_then(|backend| backend.disabled.as_ref()) != Some(reason) {
                self.report_disabled(key, reason);
            }
        }
        self.signals.lists.notify_one();
    }

    fn report_disabled(&self, key: &BackendKey, reason: &DisabledReason) {
        let status = if reason.is_fault() {
            tracing::warn!(backend = %key, "not used: {reason}");
            EventStatus::Failure
        } else {
            tracing::info!(backend = %key, "not used: {reason}");
            EventStatus::Success
        };
        let key = key.as_str();
        let facts = json!({"backend": key, "namespace": key, "reason": reason.to_string()});
        self.record(kind::BACKEND_DISABLED, status, facts);
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
        let is_of =
            |key: &BackendKey, backend: &BackendConfig| backend.is_alone || key.is_prefix_of(tool);
        let (key, backend) = configured.find(|(key, backend)| is_of(key, backend))?;
        if view.is_some_and(|view| !view.has_backend(key.as_str())) {
            return None;
        }
        if let Some(reason) = &backend.disabled {
            return Some(not_used(key, reason));
        }
        let backend = self.backends.lock().get(key).cloned()?;
        (!backend.is_up()).then(|| backend.down_error())
    }
}

/// The arguments whose values are recorded.
fn recorded(config: &Config) -> Option<Arc<RecordedArguments>> {
    let rules = config.record.clone();
    let is_recorded = move |tool: &str, argument: &str| {
        let mut rules = rules.iter();
        rules.any(|(tools, arguments)| tools.matches(tool) && arguments.matches(argument))
    };
    (!config.record.is_empty()).then(|| Arc::new(is_recorded) as Arc<RecordedArguments>)
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
    let views = config.views.iter().map(|config| Arc::clone(&config.view));
    let views: Vec<_> = views.collect();
    let has_rules = roles.is_some() || !views.is_empty();
    has_rules.then(|| {
        let admission = Admission::new(roles, views, Arc::clone(counts));
        Arc::new(admission.with_owners(Arc::new(owner)))
    })
}

/// The error of a request for a backend that is not used.
pub(crate) fn not_used(key: &BackendKey, reason: &DisabledReason) -> ToolError {
    ToolError::unavailable(format!(
        "The backend {key} is not used: {reason}. It starts when the configuration is corrected."
    ))
}
