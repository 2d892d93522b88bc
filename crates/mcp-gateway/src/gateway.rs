//! The gateway: its backends, what they offer together, and the record.

mod service;

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_core::server::ChangeNotifier;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::backend::{Backend, Signals};
use crate::catalog::Catalog;
use crate::config::{self, BackendKey, Config};
use crate::events::{Event, Log, Status, TraceId, kind};
use crate::relay::Relay;

/// The service behind the gateway's server.
pub struct Gateway {
    /// The source of the configuration, which may change while the gateway runs.
    source: config::Source,
    signals: Signals,
    relay: Relay,
    /// Shared with the metrics.
    backends: Arc<Mutex<BTreeMap<BackendKey, Arc<Backend>>>>,
    /// The tasks that keep the backends up.
    supervisors: Mutex<JoinSet<()>>,
    catalog: Mutex<Arc<Catalog>>,
    config: Mutex<Arc<Config>>,
    /// True once a catalog was published.
    published: watch::Sender<bool>,
}

impl Gateway {
    /// The gateway with the backends of `config`, none of them started. `source` tells when the
    /// configuration changes.
    pub(crate) fn new(config: Config, source: config::Source, log: Arc<Log>) -> Self {
        let signals = Signals {
            lists: Arc::new(Notify::new()),
            changes: ChangeNotifier::new(),
            log: Arc::clone(&log),
        };
        Self {
            source,
            signals,
            relay: Relay::new(log),
            backends: Arc::default(),
            supervisors: Mutex::default(),
            catalog: Mutex::default(),
            config: Mutex::new(Arc::new(config)),
            published: watch::Sender::new(false),
        }
    }

    /// The backends, by key.
    pub(crate) fn backends(&self) -> BTreeMap<BackendKey, Arc<Backend>> {
        self.backends.lock().clone()
    }

    /// The catalog that is offered at the moment.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.lock())
    }

    /// The event log.
    pub(crate) fn log(&self) -> &Log {
        &self.signals.log
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock())
    }

    /// Records an event of the gateway itself.
    fn record(&self, event: &'static str, status: Status, facts: Map<String, Value>) {
        let event = Event::new(TraceId::random(), event, status, facts);
        self.signals.log.record(event);
    }

    /// Starts and ends backends so that they are those of `config`; those that are configured as
    /// they were are left alone.
    fn apply(&self, config: Config) {
        let mut backends = self.backends.lock();
        backends.retain(|key, backend| {
            let stays = config.backends.get(key) == Some(&backend.config);
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
            backend.record(kind::BACKEND_REGISTERED, Status::Success, None);
            self.supervisors
                .lock()
                .spawn(Arc::clone(&backend).supervise());
            backends.insert(key.clone(), backend);
        }
        *self.config.lock() = Arc::new(config);
        self.signals.lists.notify_one();
    }
}
