//! One server behind the gateway.
//!
//! * [`supervise`]: starts, restarts and stops it, and reads its lists; [`connect`]: connects to it.
//! * [`instances`]: the callers' own processes or sessions (`isolation`).
//! * [`snapshot`]: its lists.
//! * [`request`]: one request to it, with concurrency limit, circuit breaker and retry.

mod connect;
mod instances;
mod request;
mod snapshot;
mod supervise;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use gateway_approvals::pins::{self, HoldReason, ListedTool, Pins};
use gateway_store::events::EventLog;
use http::{HeaderName, HeaderValue};
use mcp_client::{CallerId, Client, Counters, Handler, ServerInfo};
use mcp_core::era::Era;
use mcp_core::jsonrpc::{member, string};
use mcp_core::metrics::{Durations, Labels, OperationLabels};
use mcp_core::server::{ChangeNotifier, Connection, OriginalRequest, ServerChange};
use mcp_core::tool::Call;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use upstream::redact::{HIDDEN, LineRedactor, Redactor};

pub(crate) use self::connect::{APPS, oauth, own_id};
use self::instances::Instances;
use self::request::CircuitBreaker;
pub(crate) use self::request::RequestError;
pub(crate) use self::snapshot::{INSTRUCTIONS, ListedItem, Snapshot};
use self::supervise::Notifications;
use crate::config;
use crate::config::{BackendKey, Isolation, PinMode, Target};
use crate::credentials::SharedOAuth;
use crate::owners::ResourceOwners;

/// Lines of stderr that are kept for people.
const MAX_LINES: usize = 40;

/// Characters of such a line.
const MAX_LINE_LENGTH: usize = 400;

/// The parts of the gateway that all backends share: channels for changes, event log, metrics, pins.
#[derive(Clone)]
pub(crate) struct BackendContext {
    /// Notified when a list of a backend has changed.
    pub(crate) lists: Arc<Notify>,
    /// Announces changed resources to the clients, and holds their subscriptions.
    pub(crate) changes: ChangeNotifier,
    pub(crate) log: Arc<EventLog>,
    /// Durations of the requests to all backends, as `/metrics` shows them.
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
    pub(crate) context: BackendContext,
    /// Handles its messages that belong to no call.
    pub(crate) notifications: Arc<dyn Handler>,
    status: watch::Sender<BackendStatus>,
    snapshot: Mutex<Arc<Snapshot>>,
    /// The revision of its pins at the last check.
    pins_revision: AtomicI64,
    /// The circuit breaker of the shared process.
    breaker: Arc<CircuitBreaker>,
    /// Why a server over HTTP cannot be used, since the last request to it has shown that.
    fault: Mutex<Option<String>>,
    /// Notified when a request on any connection may have shown such a fault, so that the server is probed at once.
    failed: Notify,
    /// The permits of the shared process.
    permits: Arc<Semaphore>,
    /// The callers' own processes or sessions.
    instances: Instances,
    /// Its OAuth tokens.
    tokens: SharedOAuth,
    /// Number of requests to it.
    requests: AtomicU64,
    stderr: Mutex<Stderr>,
    /// Notified by a request that comes while it is stopped after `idle_timeout`.
    wake: Notify,
    /// Notified by `gateway_restart`.
    restart: Notify,
    /// True once a connection of the legacy era has failed since its start.
    lacks_legacy: AtomicBool,
    /// True once a refused question was logged as a warning.
    warned_of_refusal: AtomicBool,
    /// Notified when a question was refused because the client to ask is not certain.
    question_refused: Notify,
    /// Notified when its lists may have changed.
    lists_changed: Notify,
    /// Cancelled when it is removed or the gateway stops.
    removed: CancellationToken,
}

/// The output of a backend to stderr.
struct Stderr {
    /// Of all its lines.
    redactor: LineRedactor,
    /// The last lines, without secrets.
    lines: VecDeque<String>,
    is_starting: bool,
    /// The last line of this start.
    last: Option<String>,
}

impl Backend {
    /// A backend that is not started; [`Backend::supervise`] starts it.
    pub(crate) fn new(
        key: BackendKey,
        config: config::BackendConfig,
        context: BackendContext,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            key,
            permits: Arc::new(Semaphore::new(config.max_in_flight as usize)),
            config,
            metrics: BackendMetrics::default(),
            context,
            notifications: Arc::new(Notifications(Weak::clone(this))),
            status: watch::Sender::default(),
            snapshot: Mutex::default(),
            pins_revision: AtomicI64::new(0),
            breaker: Arc::default(),
            fault: Mutex::default(),
            failed: Notify::new(),
            instances: Instances::default(),
            tokens: SharedOAuth::default(),
            requests: AtomicU64::new(0),
            stderr: Mutex::new(Stderr {
                redactor: LineRedactor::new(Redactor::new(true)),
                lines: VecDeque::new(),
                is_starting: false,
                last: None,
            }),
            wake: Notify::new(),
            restart: Notify::new(),
            lacks_legacy: AtomicBool::new(false),
            warned_of_refusal: AtomicBool::new(false),
            question_refused: Notify::new(),
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
            (Some(fault), _) => status.with_fault(fault, self.context.probe_interval),
            (None, Some(wait)) => {
                let fault = "it did not answer five requests in a row".to_owned();
                status.with_fault(fault, wait)
            }
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

    /// The reason why its own service cannot be used, if it tells that.
    pub(crate) async fn degraded(&self) -> Option<String> {
        match &self.config.target {
            Target::Http(remote) => connect::degraded(remote).await,
            Target::Child(_) => None,
        }
    }

    /// True if its lists are those of a server that can be called.
    pub(crate) fn has_listed(&self) -> bool {
        self.is_up() && self.status.borrow().server.is_some()
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

    /// The number of requests to it that are not answered.
    pub(crate) fn in_flight(&self) -> usize {
        let places = self.config.max_in_flight as usize;
        places.saturating_sub(self.permits.available_permits()) + self.instances.in_flight(places)
    }

    /// Its instructions for the model; `None` if it has none, or they are held back.
    pub(crate) fn instructions(&self) -> Option<String> {
        let snapshot = self.snapshot();
        let item = snapshot.instructions.as_ref()?;
        let text = member(item.definition.get(), "instructions").and_then(string)?;
        (!snapshot.held.contains_key(INSTRUCTIONS)).then(|| text.into_owned())
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

    /// The era of the last connection for its lists.
    fn era(&self) -> Option<Era> {
        Some(self.status.borrow().server.as_ref()?.era)
    }

    /// The caller of a request to it. A server over HTTP without sessions is the same for all callers, unless `isolation`
    /// is set.
    pub(crate) fn caller(&self, call: &Call) -> Option<BackendCaller> {
        let has_sessions = self.config.is_child() || matches!(self.era(), Some(Era::Legacy(_)));
        let isolation = match self.config.isolation {
            Isolation::Unset if !has_sessions => Isolation::Shared,
            isolation => isolation,
        };
        BackendCaller::new(call, isolation)
    }

    /// Completes when a call has kept the question of another caller from its client, after `grace`. Never completes for a
    /// caller with a process or session of its own.
    pub(crate) async fn until_in_the_way(
        self: Arc<Self>,
        caller: Option<BackendCaller>,
        grace: Duration,
    ) {
        if caller.is_some_and(|caller| caller.isolation != Isolation::Shared) {
            return std::future::pending().await;
        }
        tokio::time::sleep(grace).await;
        self.question_refused.notified().await;
    }

    /// The headers that a server over HTTP gets of the client of a call: those that the operator has chosen, and the name
    /// of its principal, which the client cannot set.
    pub(crate) fn headers_of(&self, call: &Call) -> Vec<(HeaderName, HeaderValue)> {
        let (Target::Http(remote), Some(origin)) =
            (&self.config.target, call.extension::<OriginalRequest>())
        else {
            return Vec::new();
        };
        let given = remote.forward_headers.iter().filter_map(|name| {
            let value = origin.caller.headers.as_ref()?.get(name)?;
            Some((name.clone(), value.clone()))
        });
        let identity = remote.identity_header.iter().filter_map(|name| {
            let principal = origin.caller.info.principal.as_ref()?;
            let value = HeaderValue::from_bytes(principal.name.as_bytes()).ok()?;
            Some((name.clone(), value))
        });
        given.chain(identity).collect()
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
        self.stderr.lock().lines.iter().cloned().collect()
    }

    /// Keeps a line of its stderr; returns the line without secrets.
    fn keep_line(&self, line: &str) -> String {
        let mut stderr = self.stderr.lock();
        let line = stderr.redactor.line(line);
        let line = line.unwrap_or_else(|| HIDDEN.to_owned());
        let kept: String = line.chars().take(MAX_LINE_LENGTH).collect();
        if stderr.is_starting && !kept.trim().is_empty() {
            stderr.last = Some(kept.clone());
        }
        if stderr.lines.len() == MAX_LINES {
            stderr.lines.pop_front();
        }
        stderr.lines.push_back(kept);
        line
    }

    /// Notes that it is started: what it has written before says nothing about the end of this run. Once it serves, its
    /// lines may be about calls, and are for operators only.
    fn set_starting(&self, is_starting: bool) {
        let mut stderr = self.stderr.lock();
        (stderr.is_starting, stderr.last) = (is_starting, None);
    }

    /// The last line that it wrote to stderr while it started.
    fn last_line(&self) -> Option<String> {
        self.stderr.lock().last.clone()
    }

    /// Restarts it, also after a crash loop.
    pub(crate) fn restart(&self) {
        self.instances.end_all();
        self.restart.notify_one();
    }

    /// Announces an update of a resource.
    pub(super) fn updated(&self, uri: String) {
        let owners = Arc::clone(&self.context.owners.lock());
        if !owners.may_announce(&self.key, &uri) {
            tracing::debug!(backend = %self.key, ?uri, "announced a change of a resource that is not its own");
            return;
        }
        self.context.changes.announce(ServerChange::Resource(uri));
    }

    /// True once it was removed or replaced: the configuration has changed, or the gateway stops.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_cancelled()
    }

    /// The reason why a tool of its list is held back, by the definitions and decisions of now.
    pub(crate) fn held(&self, tool: &str) -> Option<HoldReason> {
        self.snapshot.lock().held.get(tool).cloned()
    }

    /// Stops it for good.
    pub(crate) fn stop(&self) {
        self.removed.cancel();
    }

    fn set_snapshot(&self, mut snapshot: Snapshot) {
        if self.config.pins.mode != PinMode::Off {
            let hashes = snapshot.pinned();
            snapshot.hashes = hashes.map(|tool| pins::hash(&tool.definition)).collect();
        }
        let mut current = self.snapshot.lock();
        *current = Arc::new(snapshot);
        self.check_tools(&mut current, true);
        drop(current);
        self.context.lists.notify_one();
    }

    /// Compares the tools with their pins again if these have changed.
    pub(crate) fn follow_pins(&self) {
        let key = self.key.as_str();
        let revision = self.context.pins.revision(key);
        let is_same = self.pins_revision.load(Ordering::Relaxed) == revision;
        if is_same && !self.context.pins.has_unstored(key) {
            return;
        }
        let mut current = self.snapshot.lock();
        if self.check_tools(&mut current, false) {
            self.context.lists.notify_one();
        }
    }

    /// Compares the tools of a snapshot with their pins. Returns true if others are held back than before.
    fn check_tools(&self, snapshot: &mut Arc<Snapshot>, is_new_list: bool) -> bool {
        let (pins, key) = (&self.context.pins, self.key.as_str());
        // Read first: a later change causes another check.
        let revision = pins.revision(key);
        self.pins_revision.store(revision, Ordering::Relaxed);
        let tools = snapshot.pinned().zip(&snapshot.hashes);
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

/// The state of a backend; the first four are those of seed 003.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BackendState {
    /// Not started, or stopped on purpose.
    #[default]
    Stopped,
    /// Being started.
    Starting,
    /// Can be called.
    Running,
    /// Exited or could not be reached; will be tried again.
    Failed,
    /// Failed too often; waits for `gateway_restart`.
    CrashLoop,
    /// Not used; the configuration has the reason.
    Disabled,
}

/// The state of a backend, with its reason and its client.
#[derive(Clone, Default)]
pub(crate) struct BackendStatus {
    pub(crate) state: BackendState,
    /// Number of successful starts; identifies a client.
    pub(crate) generation: u64,
    /// The client for it, while it runs.
    pub(crate) client: Option<Client>,
    /// The backend's information from the last handshake.
    pub(crate) server: Option<Arc<ServerInfo>>,
    /// The reason of the last failure.
    pub(crate) last_error: Option<String>,
    pub(crate) next_try: Option<Instant>,
}

impl BackendStatus {
    /// Returns the status of a running backend that cannot be used for this reason; the next try comes within `wait`.
    fn with_fault(self, fault: String, wait: Duration) -> Self {
        Self {
            state: BackendState::Failed,
            last_error: Some(fault),
            next_try: Some(Instant::now() + wait),
            ..self
        }
    }

    /// Returns the seconds until the next try, to tenths; `None` if none is planned.
    pub(crate) fn next_try_s(&self) -> Option<f64> {
        let wait = self.next_try?.saturating_duration_since(Instant::now());
        Some((wait.as_secs_f64() * 10.0).round() / 10.0)
    }
}

/// Metrics of one backend.
#[derive(Default)]
pub(crate) struct BackendMetrics {
    pub(crate) calls: Counter,
    /// Calls that ended without a result, or with an error result.
    pub(crate) errors: Counter,
    /// Starts after the first; of the callers' own processes the ends by themselves, after which a call starts them.
    pub(crate) restarts: Counter,
    /// Skipped and refused messages of earlier connections.
    earlier: Mutex<Counters>,
    /// The durations that `gateway_status` and the page show in short.
    pub(crate) quantiles: Quantiles,
    /// The tools with durations of their own in `/metrics`.
    pub(crate) labels: Labels,
    /// Requests that wait for a free place.
    pub(crate) waiting: AtomicUsize,
    /// Tokens that its listed tools cost a model.
    pub(crate) listed_tokens: AtomicUsize,
}

impl BackendMetrics {
    /// Counts a call that has ended.
    pub(crate) fn record(&self, succeeded: bool, took: Duration) {
        self.calls.inc();
        if !succeeded {
            self.errors.inc();
        }
        self.quantiles.record(took);
    }
}

/// Durations that are kept.
const MAX_DURATIONS: usize = 1_000;

/// The durations of the last calls.
#[derive(Default)]
pub(crate) struct Quantiles(Mutex<VecDeque<Duration>>);

impl Quantiles {
    fn record(&self, took: Duration) {
        let mut last = self.0.lock();
        if last.len() == MAX_DURATIONS {
            last.pop_front();
        }
        last.push_back(took);
    }

    /// Returns the milliseconds that `percent` of the last calls did not exceed; `None` before the first call.
    pub(crate) fn quantile(&self, percent: usize) -> Option<f64> {
        let mut last: Vec<Duration> = self.0.lock().iter().copied().collect();
        last.sort_unstable();
        let rank = (last.len() * percent).div_ceil(100).max(1);
        let took = last.get(rank - 1)?;
        Some((took.as_secs_f64() * 1e6).round() / 1e3)
    }
}

/// The caller of a request, by whom a backend separates its processes or sessions: a session or connection, or a principal.
#[derive(Clone)]
pub(crate) struct BackendCaller {
    pub(crate) id: CallerId,
    connection: Option<Arc<Connection>>,
    /// Cancelled when its token is revoked; `None` if it has none.
    revoked: Option<Arc<CancellationToken>>,
    /// That of the backend for this caller, never `Unset`.
    isolation: Isolation,
    /// The caller that gets questions and log messages that name no call; `None` if that is not certain, which makes each
    /// call one of a caller of its own. `isolation = "principal"` says that all clients with one token are one.
    attributed: Option<CallerId>,
    /// True for a client of an earlier era that can be asked: some servers ask it over a connection of that era only.
    asks_as_before: bool,
}

impl BackendCaller {
    /// Returns the caller of `call`: its session, if it has one, or its principal, which comes first with
    /// `isolation = "principal"`. `None` if it has neither.
    pub(crate) fn new(call: &Call, isolation: Isolation) -> Option<Self> {
        let origin = call.extension::<OriginalRequest>()?;
        let principal = origin.caller.info.principal.as_ref();
        let connection = origin.connection.as_ref();
        let is_one = isolation == Isolation::Principal;
        let isolation = isolation.of_caller(principal.is_some());
        // Only calls of one session are certainly of one client: two clients may use one token.
        let of_session = connection.map(|connection| CallerId::Number(connection.id()));
        let can = call.capabilities();
        let can_be_asked = can.elicitation || can.url_elicitation || can.sampling || can.roots;
        let connection =
            connection.filter(|_| principal.is_none() || isolation != Isolation::Principal);
        let id = match connection {
            Some(connection) => CallerId::Number(connection.id()),
            None => CallerId::Name(Arc::clone(&principal?.name)),
        };
        Some(Self {
            connection: connection.cloned(),
            revoked: origin.caller.revoked.clone(),
            attributed: match is_one {
                true => Some(id.clone()),
                false => of_session,
            },
            id,
            isolation,
            asks_as_before: can_be_asked && matches!(origin.era, Era::Legacy(_)),
        })
    }

    /// The same caller, whose questions come over a connection of the newest era.
    fn in_newest_era(self) -> Self {
        Self {
            asks_as_before: false,
            ..self
        }
    }

    /// Completes when its session has ended or its token is revoked.
    async fn left(&self) {
        let session = self.connection.as_deref().map(Connection::ended);
        tokio::select! {
            () = cancelled(session) => {}
            () = cancelled(self.revoked.as_deref()) => {}
        }
    }
}

/// Never completes without a token.
pub(crate) async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_core::server::Caller;

    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_calls() {
        let metrics = BackendMetrics::default();
        let quantile = |percent| metrics.quantiles.quantile(percent);
        assert_eq!(quantile(50), None);
        for round in [1_000, 1] {
            for millis in 1..=1_000 {
                metrics.record(millis != 7, Duration::from_millis(millis * round));
            }
        }
        assert_eq!((quantile(50), quantile(99)), (Some(500.0), Some(990.0)));
        assert_eq!(metrics.errors.get(), 2);
    }

    fn call(principal: Option<&str>, connection: Option<&Arc<Connection>>) -> Call {
        let principal = principal.map(|name| Arc::new(mcp_core::server::Principal::new(name)));
        Call::default().with_extension(Arc::new(OriginalRequest {
            params: Box::default(),
            trace: mcp_core::trace::TraceContext::for_request(None),
            era: Era::Modern,
            timeout: Duration::ZERO,
            connection: connection.cloned(),
            caller: Caller {
                revoked: principal.as_ref().map(|_| Arc::default()),
                ..Caller::default().with_principal(principal)
            },
            client: mcp_core::server::ClientName::default(),
            notes: Arc::default(),
        }))
    }

    #[test]
    fn caller_is_attributed_only_if_it_is_certain() {
        use Isolation::{Principal, Session, Shared, Unset};
        let connection = Arc::new(Connection::default());
        let session = || Some(CallerId::Number(connection.id()));
        let ada = || Some(CallerId::Name("ada".into()));
        // The caller's instance, and the caller that is asked.
        for (principal, has_session, isolation, id, attributed) in [
            (None, false, Shared, None, None),
            (None, false, Principal, None, None),
            (None, true, Shared, session(), session()),
            (None, true, Principal, session(), session()),
            (Some("ada"), false, Shared, ada(), None),
            (Some("ada"), false, Session, ada(), None),
            (Some("ada"), false, Principal, ada(), ada()),
            (Some("ada"), true, Shared, session(), session()),
            (Some("ada"), true, Session, session(), session()),
            (Some("ada"), true, Principal, ada(), ada()),
            // Where it is not set, a token makes the difference.
            (None, true, Unset, session(), session()),
            (Some("ada"), false, Unset, ada(), None),
            (Some("ada"), true, Unset, ada(), session()),
        ] {
            let connection = has_session.then_some(&connection);
            let caller = BackendCaller::new(&call(principal, connection), isolation);
            let found = caller.as_ref().map(|caller| caller.id.clone());
            assert_eq!(found, id, "{principal:?} {has_session} {isolation:?}");
            let found = caller.and_then(|caller| caller.attributed);
            assert_eq!(
                found, attributed,
                "{principal:?} {has_session} {isolation:?}"
            );
        }
    }
}
