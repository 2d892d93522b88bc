//! The gateway's state: its configuration, its backends, their catalog and the event log.

mod service;

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_core::server::ChangeNotifier;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::backend::{Backend, Signals};
use crate::catalog::Catalog;
use crate::config::{self, BackendKey, Config};
use crate::events::{Event, EventLog, EventStatus, kind};
use crate::relay::Relay;

/// The service behind the gateway's server.
pub struct Gateway {
    source: config::ConfigSource,
    signals: Signals,
    relay: Relay,
    /// The backends that are not disabled. Shared with the metrics.
    backends: Arc<Mutex<BTreeMap<BackendKey, Arc<Backend>>>>,
    /// One task for each backend, which starts and restarts it.
    supervisors: Mutex<JoinSet<()>>,
    catalog: Mutex<Arc<Catalog>>,
    config: Mutex<Arc<Config>>,
}

impl Gateway {
    /// A gateway with the backends of `config`, none of them started. `source` reports changes of the
    /// configuration.
    pub(crate) fn new(config: Config, source: config::ConfigSource, log: Arc<EventLog>) -> Self {
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
        }
    }

    pub(crate) fn backends(&self) -> BTreeMap<BackendKey, Arc<Backend>> {
        self.backends.lock().clone()
    }

    /// The catalog that was published last.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.lock())
    }

    pub(crate) fn log(&self) -> &EventLog {
        &self.signals.log
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock())
    }

    /// Records an event of the gateway itself.
    fn record(&self, event: &'static str, status: EventStatus, facts: Value) {
        self.signals.log.record(Event::new(event, status, facts));
    }

    /// Starts and stops backends so that they match `config`. A backend whose configuration is
    /// unchanged is not touched.
    fn apply(&self, config: Config) {
        let mut backends = self.backends.lock();
        backends.retain(|key, backend| {
            let is_unchanged = config.backends.get(key) == Some(&backend.config);
            if !is_unchanged {
                backend.stop();
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
        *self.config.lock() = Arc::new(config);
        self.signals.lists.notify_one();
    }
}
