//! The other replicas of this gateway: their reports are followed, and the own one is shown to them.

use std::sync::Arc;

use super::Gateway;
use crate::backend::{Backend, WatchedAt};
use crate::config::{Config, Placement};
use crate::replicas::report::ReplicaReport;

/// The outcome of a restart at a replica that does not run the backend.
pub(super) const ELSEWHERE: &str = "does not run here";

impl Gateway {
    /// Shows the own report to the other replicas, and follows theirs. Ends without others.
    pub(super) async fn follow_replicas(&self) {
        let Some(table) = &self.replicas else {
            return;
        };
        let (backends, restarts) = (Arc::clone(&self.backends), Arc::clone(&self.restarts));
        table.show(move || {
            let backends = backends.lock().clone();
            let mut report = ReplicaReport::new(backends.values().map(|backend| &**backend));
            restarts.write(&mut report);
            report.to_store()
        });
        let mut readings = table.readings();
        while readings.changed().await.is_ok() {
            let reports = self.reports();
            for (key, backend) in self.backends().iter().filter(|(_, one)| one.is_placed()) {
                let others = reports.iter();
                let others = others.filter_map(|(id, report)| {
                    let numbers = report.backends.get(key.as_str())?;
                    Some(WatchedAt {
                        replica: *id,
                        watched: &numbers.watched,
                        updates: &numbers.updates,
                    })
                });
                backend.follow_others(&others.collect::<Vec<_>>());
            }
            let reports = reports.into_iter();
            let reports: Vec<ReplicaReport> = reports.map(|(_, report)| report).collect();
            if self
                .restarts
                .read(&reports, |backend| self.restart_here(backend))
            {
                table.show_now();
            }
            self.doubt(&reports);
        }
    }

    /// Takes part in placing the backends that run at one replica only.
    pub(super) fn place_backends(&self, config: &Config) {
        let Some(table) = &self.replicas else {
            return;
        };
        let backends = config.backends.iter();
        let placed = backends.filter(|(_, backend)| {
            backend.placement == Placement::One && backend.disabled.is_none()
        });
        table.place_backends(placed.map(|(key, _)| key.to_string()).collect());
    }

    /// Restarts a backend for another replica, and returns the outcome.
    fn restart_here(&self, backend: &str) -> String {
        let backends = self.backends.lock();
        let found = backends.iter().find(|(key, _)| key.as_str() == backend);
        found.map_or_else(
            || "has no such backend".to_owned(),
            |(_, backend)| restarted(backend),
        )
    }

    /// Notes which backends do not answer others.
    fn doubt(&self, reports: &[ReplicaReport]) {
        for (key, backend) in &*self.backends.lock() {
            let mut others = reports
                .iter()
                .filter_map(|report| report.backends.get(key.as_str()));
            if others.any(|other| other.has_open_circuit) {
                backend.doubt();
            }
        }
    }
}

/// Restarts a backend, and says what it was before.
fn restarted(backend: &Backend) -> String {
    if backend.is_elsewhere() {
        return ELSEWHERE.to_owned();
    }
    let before = backend.status().state.name();
    backend.restart();
    format!("restarts; it was {before}")
}
