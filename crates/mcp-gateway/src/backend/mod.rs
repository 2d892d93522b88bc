//! One server behind the gateway.
//!
//! * [`supervise`]: starts it, keeps it up, and knows what it offers.
//! * [`hears`]: what it says of its own accord.
//! * [`snapshot`]: what it offers; [`pins`]: whether that is what it was.
//! * [`ask`]: one request to it, with all that protects the caller.
//! * [`breaker`], [`backoff`], [`figures`]: when not to ask, when to try again, what it came to.

mod ask;
mod backoff;
mod breaker;
mod dial;
mod figures;
mod hears;
mod pins;
mod snapshot;
mod state;
mod supervise;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_client::{Client, Handler};
use mcp_core::era::Era;
use mcp_core::server::Changes;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::config;
use crate::config::BackendKey;
use crate::events::Log;

pub(crate) use self::ask::Failure;
use self::breaker::Breaker;
pub(crate) use self::figures::Figures;
use self::hears::Hears;
use self::pins::Pins;
pub(crate) use self::snapshot::{Item, Snapshot, fits};
pub(crate) use self::state::{State, Status};

/// What backends tell the gateway.
#[derive(Clone)]
pub(crate) struct Signals {
    /// A list of some backend is not what it was.
    pub(crate) lists: Arc<Notify>,
    /// Where clients hear of changed resources, and say which ones they wait for.
    pub(crate) changes: Changes,
    /// The event log.
    pub(crate) log: Arc<Log>,
}

/// One server behind the gateway, as configured and as it is.
pub(crate) struct Backend {
    pub(crate) key: BackendKey,
    pub(crate) config: config::Backend,
    pub(crate) figures: Figures,
    signals: Signals,
    status: watch::Sender<Status>,
    snapshot: Mutex<Arc<Snapshot>>,
    pins: Mutex<Pins>,
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
            figures: Figures::default(),
            signals,
            status: watch::Sender::default(),
            snapshot: Mutex::default(),
            pins: Mutex::default(),
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

    /// What it has sent that nobody could use since it was configured: answers to nothing that was
    /// asked or not given up, and what was no message at all.
    pub(crate) fn misfits(&self) -> (u64, u64) {
        let ended = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let status = self.status.borrow();
        let now = status
            .client
            .as_ref()
            .map(Client::counters)
            .unwrap_or_default();
        (
            ended(&self.figures.strays) + now.stray_answers,
            ended(&self.figures.noise) + now.noise,
        )
    }

    /// What it offers, as far as is known.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.lock().unwrap_or_else(PoisonError::into_inner))
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
        self.pins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget();
        self.restart.notify_one();
    }

    /// Lets it go.
    pub(crate) fn stop(&self) {
        self.gone.cancel();
    }

    /// Takes what the backend says of its own accord, also while it answers something.
    pub(crate) fn hears(self: &Arc<Self>) -> Arc<dyn Handler> {
        Hears::of(self)
    }

    fn set_snapshot(&self, mut snapshot: Snapshot) {
        let (different, news) = {
            let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
            pins.compare(&snapshot.tools)
        };
        snapshot.changed = different;
        for change in &news {
            self.tell_of_change(change);
        }
        let snapshot = Arc::new(snapshot);
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        self.signals.lists.notify_one();
    }
}
