//! One server behind the gateway.
//!
//! * [`supervise`]: starts, restarts and stops it, and reads its lists; [`connect`]: connects to it.
//! * [`notifications`]: its messages that belong to no call; [`caller`]: the caller of a request.
//! * [`instances`]: the callers' own processes or sessions (`isolation`).
//! * [`snapshot`]: its lists.
//! * [`request`]: one request to it, with concurrency limit, circuit breaker and retry.
//! * [`circuit_breaker`], [`backoff`], [`metrics`]: circuit breaker, delays between starts, counters.

mod backoff;
mod caller;
mod circuit_breaker;
mod connect;
mod instances;
mod metrics;
mod notifications;
mod probe;
mod request;
mod snapshot;
mod state;
mod supervise;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use gateway_approvals::pins::{self, ListedTool, Pins};
use gateway_store::events::EventLog;
use mcp_client::{Client, Counters, Handler};
use mcp_core::era::Era;
use mcp_core::metrics::{Durations, OperationLabels};
use mcp_core::server::{ChangeNotifier, ServerChange};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use upstream::redact::{HIDDEN, LineRedactor, Redactor};

use crate::catalog::ResourceOwners;
use crate::config;
use crate::config::{BackendKey, PinMode};
use crate::credentials::SharedOAuth;

pub(crate) use self::caller::Caller;
use self::circuit_breaker::CircuitBreaker;
pub(crate) use self::connect::oauth;
use self::instances::Instances;
use self::metrics::BackendMetrics;
pub(crate) use self::request::RequestError;
pub(crate) use self::snapshot::{ListedItem, Snapshot, fits};
pub(crate) use self::state::{BackendState, BackendStatus};

/// Lines of stderr that are kept for people.
const MAX_LINES: usize = 40;

/// Characters of such a line.
const MAX_LINE_LENGTH: usize = 400;

/// The channels from the backends to the gateway.
#[derive(Clone)]
pub(crate) struct Signals {
    /// Notified when a list of a backend has changed.
    pub(crate) lists: Arc<Notify>,
    /// Announces changed resources to the clients, and holds their subscriptions.
    pub(crate) changes: ChangeNotifier,
    pub(crate) log: Arc<EventLog>,
    /// Of the requests to all backends, as `/metrics` shows them.
    pub(crate) durations: Durations,
    /// The approved definitions of tools.
    pub(crate) pins: Arc<Pins>,
    /// The backend of each resource, by the catalog that was published last.
    pub(crate) owners: Arc<Mutex<Arc<ResourceOwners>>>,
    /// Interval of the probes of backends over HTTP.
    pub(crate) probe_interval: Duration,
}

/// One server behind the gateway: its configuration and its state.
pub(crate) struct Backend {
    pub(crate) key: BackendKey,
    pub(crate) config: config::BackendConfig,
    pub(crate) metrics: BackendMetrics,
    signals: Signals,
    /// Handles its messages that belong to no call.
    notifications: Arc<dyn Handler>,
    status: watch::Sender<BackendStatus>,
    snapshot: Mutex<Arc<Snapshot>>,
    /// The revision of its pins at the last check.
    pins_revision: AtomicI64,
    /// The circuit breaker of the shared process.
    breaker: Arc<CircuitBreaker>,
    /// Why a server over HTTP cannot be used, since the last request to it has shown that.
    fault: Mutex<Option<String>>,
    /// The permits of the shared process.
    permits: Arc<Semaphore>,
    /// The callers' own processes or sessions.
    instances: Instances,
    /// Its OAuth tokens.
    tokens: SharedOAuth,
    /// Number of requests to it.
    requests: AtomicU64,
    /// The last lines that it wrote to stderr, without secrets.
    lines: Mutex<VecDeque<String>>,
    /// Of all lines that it writes to stderr.
    line_redactor: Mutex<LineRedactor>,
    /// Notified by a request that comes while it is stopped after `idle_timeout`.
    wake: Notify,
    /// Notified by `gateway_restart`.
    restart: Notify,
    /// True once a refused question was logged as a warning.
    warned_of_refusal: AtomicBool,
    /// Notified when its lists may have changed.
    lists_changed: Notify,
    /// Cancelled when it is removed or the gateway stops.
    removed: CancellationToken,
}

impl Backend {
    /// A backend that is not started; [`Backend::supervise`] starts it.
    pub(crate) fn new(
        key: BackendKey,
        config: config::BackendConfig,
        signals: Signals,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            key,
            permits: Arc::new(Semaphore::new(config.max_in_flight as usize)),
            config,
            metrics: BackendMetrics::default(),
            signals,
            notifications: notifications::handler(this),
            status: watch::Sender::default(),
            snapshot: Mutex::default(),
            pins_revision: AtomicI64::new(0),
            breaker: Arc::default(),
            fault: Mutex::default(),
            instances: Instances::default(),
            tokens: SharedOAuth::default(),
            requests: AtomicU64::new(0),
            lines: Mutex::default(),
            line_redactor: Mutex::new(LineRedactor::new(Redactor::new(true))),
            wake: Notify::new(),
            restart: Notify::new(),
            warned_of_refusal: AtomicBool::new(false),
            lists_changed: Notify::new(),
            removed: CancellationToken::new(),
        })
    }

    pub(crate) fn status(&self) -> BackendStatus {
        let status = self.status.borrow().clone();
        if status.state != BackendState::Running {
            return status;
        }
        match (self.fault.lock().clone(), self.breaker.open_for()) {
            (Some(fault), _) => status.with_fault(fault, self.signals.probe_interval),
            (None, Some(wait)) => status.with_open_circuit(wait),
            (None, None) => status,
        }
    }

    /// Returns true if it can be called: it runs, or a call will start it.
    pub(crate) fn is_up(&self) -> bool {
        let status = self.status();
        let is_idle = self.config.idle_timeout.is_some() && status.server.is_some();
        match status.state {
            BackendState::Running => true,
            state => state == BackendState::Stopped && is_idle,
        }
    }

    /// Its skipped and refused messages since it was configured.
    pub(crate) fn counters(&self) -> Counters {
        let client = self.status.borrow().client.clone();
        let mut counters = *self.metrics.earlier.lock();
        counters += client.as_ref().map(Client::counters).unwrap_or_default();
        counters += self.instances.counters();
        counters
    }

    /// The labels of requests with this method, or of calls of the tool with this published name, that succeed.
    pub(crate) fn labels(&self, method: &'static str, tool: Option<&str>) -> OperationLabels {
        OperationLabels {
            backend: Some(self.key.shared()),
            method,
            tool: tool.map(|tool| self.metrics.labels.label(tool)),
            error: None,
        }
    }

    /// Counts a request that was sent to it.
    pub(crate) fn record_duration(&self, labels: OperationLabels, took: Duration) {
        self.signals.durations.record(labels, took);
    }

    /// The number of requests to it that are not answered.
    pub(crate) fn in_flight(&self) -> usize {
        let places = self.config.max_in_flight as usize;
        places.saturating_sub(self.permits.available_permits()) + self.instances.in_flight(places)
    }

    /// The tokens that the definitions of its allowed tools cost a model, about: four bytes are one.
    pub(crate) fn listed_tokens(&self) -> usize {
        let snapshot = self.snapshot();
        let tools = snapshot.tools.iter();
        let allowed = tools.filter(|tool| self.config.filter.allows(&tool.id));
        let bytes: usize = allowed.map(|tool| tool.definition.get().len()).sum();
        bytes / 4
    }

    /// The number of the callers' own processes or sessions.
    pub(crate) fn instances(&self) -> usize {
        self.instances.len()
    }

    /// The lists that were read last.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.lock())
    }

    /// Returns true if it may answer calls with tasks (2026-07-28, `io.modelcontextprotocol/tasks`).
    pub(crate) fn has_tasks(&self) -> bool {
        let status = self.status.borrow();
        let Some(server) = &status.server else {
            return false;
        };
        let declared: Value = serde_json::from_str(server.capabilities.get()).unwrap_or_default();
        let tasks = declared["extensions"].get("io.modelcontextprotocol/tasks");
        server.era == Era::Modern && tasks.is_some()
    }

    /// Completes when the first start has succeeded or failed.
    pub(crate) async fn first_start(&self) {
        let mut status = self.status.subscribe();
        // The sender lives as long as `self`.
        let _ = status
            .wait_for(|status| {
                !matches!(status.state, BackendState::Stopped | BackendState::Starting)
            })
            .await;
    }

    /// The last lines that it wrote to stderr.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.lines.lock().iter().cloned().collect()
    }

    /// Keeps a line of its stderr; returns the line without secrets.
    fn keep_line(&self, line: &str) -> String {
        let line = self.line_redactor.lock().line(line);
        let line = line.unwrap_or_else(|| HIDDEN.to_owned());
        let mut lines = self.lines.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line.chars().take(MAX_LINE_LENGTH).collect());
        line
    }

    /// Restarts it, also after a crash loop.
    pub(crate) fn restart(&self) {
        self.instances.end_all();
        self.restart.notify_one();
    }

    /// Announces an update of a resource.
    pub(super) fn updated(&self, uri: String) {
        let owners = Arc::clone(&self.signals.owners.lock());
        if !owners.may_announce(&self.key, &uri) {
            tracing::debug!(backend = %self.key, ?uri, "announced a change of a resource that is not its own");
            return;
        }
        self.signals.changes.announce(ServerChange::Resource(uri));
    }

    /// Stops it for good.
    pub(crate) fn stop(&self) {
        self.removed.cancel();
    }

    fn set_snapshot(&self, mut snapshot: Snapshot) {
        if self.config.pins.mode != PinMode::Off {
            let hashes = snapshot.tools.iter();
            snapshot.hashes = hashes.map(|tool| pins::hash(&tool.definition)).collect();
        }
        let mut current = self.snapshot.lock();
        *current = Arc::new(snapshot);
        self.check_tools(&mut current, true);
        drop(current);
        self.signals.lists.notify_one();
    }

    /// Compares the tools with their pins again if these have changed.
    pub(crate) fn follow_pins(&self) {
        let key = self.key.as_str();
        let revision = self.signals.pins.revision(key);
        let is_same = self.pins_revision.load(Ordering::Relaxed) == revision;
        if is_same && !self.signals.pins.has_unstored(key) {
            return;
        }
        let mut current = self.snapshot.lock();
        if self.check_tools(&mut current, false) {
            self.signals.lists.notify_one();
        }
    }

    /// Compares the tools of a snapshot with their pins. Returns true if others are held back than before.
    fn check_tools(&self, snapshot: &mut Arc<Snapshot>, is_new_list: bool) -> bool {
        let (pins, key) = (&self.signals.pins, self.key.as_str());
        // Read first: a later change causes another check.
        let revision = pins.revision(key);
        self.pins_revision.store(revision, Ordering::Relaxed);
        let tools = snapshot.tools.iter().zip(&snapshot.hashes);
        let tools = tools.map(|(tool, hash)| ListedTool {
            name: &tool.id,
            definition: &tool.definition,
            hash,
        });
        let tools: Vec<ListedTool<'_>> = tools.collect();
        let checked = pins.check(key, self.config.pins, &tools, is_new_list);
        for change in &checked.changes {
            self.record_change(change);
        }
        let is_changed = snapshot.held != checked.held;
        if is_changed {
            let held = checked.held;
            let tools = Snapshot::clone(snapshot);
            *snapshot = Arc::new(Snapshot { held, ..tools });
        }
        is_changed
    }
}
