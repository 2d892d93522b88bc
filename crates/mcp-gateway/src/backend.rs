//! One server behind the gateway.
//!
//! * [`supervise`]: starts it, keeps it up, and knows what it offers; [`connect`]: the way to it.
//! * [`notifications`]: what it says of its own accord.
//! * [`snapshot`]: what it offers; [`fingerprints`]: whether that is what it was.
//! * [`ask`]: one request to it, with all that protects the caller.
//! * [`breaker`], [`backoff`], [`metrics`]: when not to ask, when to try again, what it came to.

mod ask;
mod backoff;
mod breaker;
mod connect;
mod fingerprints;
mod metrics;
mod notifications;
mod snapshot;
mod state;
mod supervise;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use mcp_client::{Client, Counters};
use mcp_core::era::Era;
use mcp_core::server::ChangeNotifier;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::config;
use crate::config::BackendKey;
use crate::events::Log;

pub(crate) use self::ask::Failure;
use self::breaker::Breaker;
use self::fingerprints::Fingerprints;
use self::metrics::Metrics;
pub(crate) use self::snapshot::{Item, Snapshot, fits};
pub(crate) use self::state::{State, Status};

/// What backends tell the gateway.
#[derive(Clone)]
pub(crate) struct Signals {
    /// A list of some backend is not what it was.
    pub(crate) lists: Arc<Notify>,
    /// Where clients hear of changed resources, and say which ones they wait for.
    pub(crate) changes: ChangeNotifier,
    /// The event log.
    pub(crate) log: Arc<Log>,
}

/// One server behind the gateway, as configured and as it is.
pub(crate) struct Backend {
    pub(crate) key: BackendKey,
    pub(crate) config: config::Backend,
    pub(crate) metrics: Metrics,
    signals: Signals,
    status: watch::Sender<Status>,
    snapshot: Mutex<Arc<Snapshot>>,
    fingerprints: Mutex<Fingerprints>,
    breaker: Breaker,
    permits: Semaphore,
    /// It is being asked whether it is there at all.
    probing: AtomicBool,
    /// How often it was asked for something.
    asked: AtomicU64,
    /// Somebody asks while it sleeps.
    wake: Notify,
    /// Somebody wants it started anew.
    restart: Notify,
    /// Its lists may have changed.
    stale: Notify,
    /// It is not wanted any more.
    gone: CancellationToken,
}

impl Backend {
    /// A backend that is not started yet: see [`Backend::supervise`].
    pub(crate) fn new(key: BackendKey, config: config::Backend, signals: Signals) -> Arc<Self> {
        Arc::new(Self {
            key,
            permits: Semaphore::new(config.max_in_flight as usize),
            config,
            metrics: Metrics::default(),
            signals,
            status: watch::Sender::default(),
            snapshot: Mutex::default(),
            fingerprints: Mutex::default(),
            breaker: Breaker::default(),
            probing: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            wake: Notify::new(),
            restart: Notify::new(),
            stale: Notify::new(),
            gone: CancellationToken::new(),
        })
    }

    /// How it is.
    pub(crate) fn status(&self) -> Status {
        let status = self.status.borrow().clone();
        match self.breaker.open_for() {
            Some(wait) if matches!(status.state, State::Running) => status.cut_off(wait),
            _ => status,
        }
    }

    /// True if it can be called: it runs, or a call starts it.
    pub(crate) fn is_up(&self) -> bool {
        let status = self.status();
        let sleeps = self.config.idle_timeout.is_some() && status.server.is_some();
        status.state == State::Running || status.state == State::Stopped && sleeps
    }

    /// Protocol violations since it was configured: answers to nothing that was asked or not given
    /// up, and what was no message at all.
    pub(crate) fn protocol_violations(&self) -> Counters {
        let client = self.status.borrow().client.clone();
        let mut counters = client.as_ref().map(Client::counters).unwrap_or_default();
        counters.unmatched_responses += self.metrics.stray_answers.get();
        counters.invalid_messages += self.metrics.noise.get();
        counters
    }

    /// What it offers, as far as is known.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.lock())
    }

    /// True if it may answer calls with tasks (2026-07-28, `io.modelcontextprotocol/tasks`).
    pub(crate) fn has_tasks(&self) -> bool {
        #[derive(Default, Deserialize)]
        struct Capabilities {
            #[serde(default)]
            extensions: Map<String, Value>,
        }
        let status = self.status.borrow();
        let Some(server) = &status.server else {
            return false;
        };
        let said: Capabilities =
            serde_json::from_str(server.capabilities.get()).unwrap_or_default();
        server.era == Era::Modern
            && said
                .extensions
                .contains_key("io.modelcontextprotocol/tasks")
    }

    /// Completes once it was tried to start it.
    pub(crate) async fn tried(&self) {
        let mut status = self.status.subscribe();
        // The sender lives as long as `self`.
        let _ = status
            .wait_for(|status| !matches!(status.state, State::Stopped | State::Starting))
            .await;
    }

    /// Starts it anew, however often that has failed before.
    /// What its tools look like then is taken as what they are.
    pub(crate) fn restart(&self) {
        self.fingerprints.lock().forget();
        self.restart.notify_one();
    }

    /// Lets it go.
    pub(crate) fn stop(&self) {
        self.gone.cancel();
    }

    fn set_snapshot(&self, mut snapshot: Snapshot) {
        let (different, news) = self.fingerprints.lock().compare(&snapshot.tools);
        snapshot.changed = different;
        for change in &news {
            self.record_change(change);
        }
        *self.snapshot.lock() = Arc::new(snapshot);
        self.signals.lists.notify_one();
    }
}
