//! The gateway at work: its backends, what they offer together, and the record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_core::server::{Changes, Lists, Server};
use mcp_core::tool::ToolError;
use serde_json::{Map, json};
use tokio::sync::{Notify, watch};

use crate::backend::{Backend, Signals};
use crate::config::{self, BackendKey, Config};
use crate::events::{Event, Log, Status as Went, TraceId, kind};
use crate::figures;
use crate::offering::{Offering, Refused};
use crate::relay::Relay;
use crate::tools;

/// How long the first list waits for backends that are being started.
const START: Duration = Duration::from_millis(1500);
/// How long changes of lists may gather before they are told …
const GATHER: Duration = Duration::from_millis(200);
/// … and how long there is silence after that: a backend that flaps is heard once a second.
const PAUSE: Duration = Duration::from_millis(800);

/// The service behind the gateway's server.
pub struct Hub {
    /// What can be changed while it runs comes from here.
    source: config::Source,
    pub(crate) signals: Signals,
    relay: Relay,
    backends: Mutex<BTreeMap<BackendKey, Arc<Backend>>>,
    /// The tasks that keep the backends up.
    supervisors: Mutex<tokio::task::JoinSet<()>>,
    offering: Mutex<Arc<Offering>>,
    config: Mutex<Arc<Config>>,
    /// True once something was published.
    published: watch::Sender<bool>,
}

impl Hub {
    /// The gateway with the backends of `config`, none of them started. `source` tells when the
    /// configuration changes.
    pub(crate) fn new(config: Config, source: config::Source, log: Arc<Log>) -> Self {
        let signals = Signals {
            lists: Arc::new(Notify::new()),
            changes: Changes::new(),
            log: Arc::clone(&log),
        };
        Self {
            source,
            signals,
            relay: Relay::new(log),
            backends: Mutex::default(),
            supervisors: Mutex::default(),
            offering: Mutex::default(),
            config: Mutex::new(Arc::new(config)),
            published: watch::Sender::new(false),
        }
    }

    /// The backends, by key.
    pub(crate) fn backends(&self) -> BTreeMap<BackendKey, Arc<Backend>> {
        lock(&self.backends).clone()
    }

    /// What is not offered, and why.
    pub(crate) fn refused(&self) -> Vec<Refused> {
        lock(&self.offering).refused.clone()
    }

    /// What is offered at the moment.
    pub(crate) fn offering(&self) -> Arc<Offering> {
        Arc::clone(&lock(&self.offering))
    }

    /// How it is configured at the moment.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&lock(&self.config))
    }

    /// Writes down that something happened to the gateway itself.
    pub(crate) fn tell(
        &self,
        event: &'static str,
        went: Went,
        facts: Map<String, serde_json::Value>,
    ) {
        self.signals
            .log
            .record(Event::new(TraceId::random(), event, went, facts));
    }

    /// Starts and ends backends so that they are those of `config`; those that are configured as
    /// they were are left alone.
    fn apply(&self, config: Config) {
        let mut backends = lock(&self.backends);
        backends.retain(|key, backend| {
            let wanted = config.backends.get(key);
            let stays = wanted == Some(&backend.config);
            if !stays {
                backend.stop();
            }
            stays
        });
        for (key, wanted) in &config.backends {
            if wanted.disabled.is_some() || backends.contains_key(key) {
                continue;
            }
            let backend = Backend::new(key.clone(), wanted.clone(), self.signals.clone());
            backend.tell(kind::BACKEND_REGISTERED, Went::Success, None);
            lock(&self.supervisors).spawn(Arc::clone(&backend).supervise());
            backends.insert(key.clone(), backend);
        }
        *lock(&self.config) = Arc::new(config);
        self.signals.lists.notify_one();
    }

    /// Publishes what the backends offer whenever that changes. The first time it waits for those
    /// that start quickly, so that clients that ask only once see them.
    async fn publish(self: &Arc<Self>, server: &Server) {
        let backends = self.backends();
        let tried =
            futures_util::future::join_all(backends.values().map(|backend| backend.tried()));
        let _ = tokio::time::timeout(START, tried).await;
        loop {
            let offering = Arc::new(Offering::of(
                &self.relay,
                &self.backends(),
                self.config().tool_changes,
            ));
            for refused in &offering.refused {
                tracing::debug!(backend = %refused.backend, item = refused.item, "not offered: {}", refused.reason);
            }
            *lock(&self.offering) = Arc::clone(&offering);
            server.publish(self.shown(&offering));
            self.published.send_replace(true);
            tokio::time::sleep(PAUSE).await;
            self.signals.lists.notified().await;
            tokio::time::sleep(GATHER).await;
        }
    }

    /// What of the offering is shown: all of it, or, where that would be too much for a model, the
    /// means to search it.
    fn shown(self: &Arc<Self>, offering: &Offering) -> Lists {
        let mut lists = offering.lists.clone();
        let listed = lists
            .tools
            .iter()
            .filter(|(tool, _)| tool.is_listed)
            .count();
        let limit = self.config().search_above;
        if limit.is_some_and(|limit| listed > limit) {
            for (tool, _) in &mut lists.tools {
                tool.is_listed = false;
            }
            lists.tools.extend(tools::search().bind(self));
        }
        lists
    }

    /// Takes over changed configurations.
    async fn follow(&self) {
        let mut source = self.source.clone();
        loop {
            match source.changed().await {
                Ok(config) => {
                    tracing::info!(
                        backends = config.backends.len(),
                        "the configuration has changed"
                    );
                    self.apply(config);
                    self.tell(kind::CONFIG_CHANGED, Went::Success, Map::new());
                }
                Err(reason) => {
                    tracing::warn!("the changed configuration is refused: {reason}");
                    let facts = Map::from_iter([("error".to_owned(), json!(reason.to_string()))]);
                    self.tell(kind::CONFIG_CHANGED, Went::Failure, facts);
                }
            }
        }
    }
}

impl mcp_serve::Service for Hub {
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

    fn changes(&self) -> Option<Changes> {
        Some(self.signals.changes.clone())
    }

    async fn run(self: Arc<Self>, server: Arc<Server>) {
        self.tell(kind::STARTED, Went::Success, Map::new());
        self.apply(Config::clone(&self.config()));
        tokio::join!(self.publish(&server), self.follow());
    }

    async fn ready(&self) {
        // The sender lives as long as `self`.
        let _ = self.published.subscribe().wait_for(|done| *done).await;
    }

    async fn stop(&self) {
        for backend in self.backends().values() {
            backend.stop();
        }
        let mut supervisors = std::mem::take(&mut *lock(&self.supervisors));
        while supervisors.join_next().await.is_some() {}
        self.tell(kind::STOPPED, Went::Success, Map::new());
        let log = Arc::clone(&self.signals.log);
        // It writes what it still has.
        let _ = tokio::task::spawn_blocking(move || log.close()).await;
    }

    fn metrics(&self) -> String {
        figures::prometheus(self)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
