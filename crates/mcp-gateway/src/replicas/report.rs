//! The report of a replica about its backends: a small JSON text. Replicas of another version may write other fields,
//! so that all are optional.

use std::collections::{BTreeMap, BTreeSet};

use gateway_store::replicas::{Report, ReportOf};
use mcp_core::server::ReplicaId;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, BackendState};

/// Backends in a report; the others are those of this replica only.
const MAX_BACKENDS: usize = 200;
/// Bytes of the reason of a failure.
const MAX_REASON: usize = 100;

/// The report of a replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaReport {
    /// The backends, by key.
    pub(crate) backends: BTreeMap<String, BackendNumbers>,
    /// Restarts for the others, by their id: the backend.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) restarts: BTreeMap<String, String>,
    /// The outcomes of restarts for others, by their id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) restarted: BTreeMap<String, String>,
}

/// A backend at a replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BackendNumbers {
    pub(crate) state: String,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) in_flight: u64,
    pub(crate) restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Seconds until the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_try_s: Option<f64>,
    /// True if it does not get calls, since it has not answered some.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) has_open_circuit: bool,
    /// The resources that clients of this replica watch at another one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) watched: BTreeSet<String>,
    /// The number of updates of each resource that clients of other replicas watch here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) updates: BTreeMap<String, u64>,
}

impl BackendNumbers {
    pub(crate) fn new(backend: &Backend) -> Self {
        let (status, metrics) = (backend.status(), &backend.metrics);
        let is_down = status.state != BackendState::Running;
        let error = status.last_error.as_deref().filter(|_| is_down);
        let error = error.map(|error| error[..error.floor_char_boundary(MAX_REASON)].to_owned());
        Self {
            state: status.state.name().to_owned(),
            calls: metrics.calls.get(),
            errors: metrics.errors.get(),
            in_flight: backend.in_flight() as u64,
            restarts: metrics.restarts.get(),
            error,
            next_try_s: status.next_try_s(),
            has_open_circuit: backend.has_open_circuit(),
            watched: backend.watched_elsewhere(),
            updates: backend.updates_for_others(),
        }
    }

    /// Adds the numbers of another replica.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.in_flight += other.in_flight;
        self.restarts += other.restarts;
    }
}

impl ReplicaReport {
    pub(crate) fn new<'a>(backends: impl Iterator<Item = &'a Backend>) -> Self {
        let numbers = |backend: &Backend| (backend.key.to_string(), BackendNumbers::new(backend));
        Self {
            backends: backends.take(MAX_BACKENDS).map(numbers).collect(),
            ..Self::default()
        }
    }

    /// The report in the form that is stored. States, resources and restarts are for the next beat, numbers for later ones.
    pub(crate) fn to_store(&self) -> Report {
        let states = self.backends.values();
        let states = states.map(|one| {
            let health = (&one.state, &one.error, one.has_open_circuit);
            (health, &one.watched, &one.updates)
        });
        let states: Vec<_> = states.collect();
        let urgent = serde_json::to_string(&(states, &self.restarts, &self.restarted));
        Report {
            text: serde_json::to_string(self).unwrap_or_default(),
            urgent: urgent.unwrap_or_default(),
        }
    }

    /// Reads a report; `None` for one that this version does not understand.
    pub(crate) fn read(stored: &ReportOf) -> Option<(ReplicaId, Self)> {
        let mut report: Self = serde_json::from_str(&stored.text).ok()?;
        for backend in report.backends.values_mut() {
            let age = stored.age.as_secs_f64();
            let wait = backend.next_try_s.map(|wait| (wait - age).max(0.0));
            backend.next_try_s = wait.map(|wait| (wait * 10.0).round() / 10.0);
        }
        Some((stored.replica, report))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(is_true: &bool) -> bool {
    !is_true
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn report_is_read_again_and_the_next_try_comes_closer() {
        let numbers = BackendNumbers {
            state: "failed".to_owned(),
            next_try_s: Some(4.0),
            ..BackendNumbers::default()
        };
        let report = ReplicaReport {
            backends: [("b".to_owned(), numbers)].into(),
            ..ReplicaReport::default()
        };
        let stored = |text: String, seconds| ReportOf {
            replica: ReplicaId::new(1),
            text: text.into(),
            age: Duration::from_secs(seconds),
        };
        let text = report.to_store().text;
        let read = |seconds| {
            ReplicaReport::read(&stored(text.clone(), seconds))
                .unwrap()
                .1
        };
        assert_eq!(read(0), report);
        assert_eq!(read(1).backends["b"].next_try_s, Some(3.0));
        assert_eq!(read(9).backends["b"].next_try_s, Some(0.0));
        let newer = r#"{"backends":{"b":{"state":"new","more":1}},"other":[]}"#;
        let newer = ReplicaReport::read(&stored(newer.to_owned(), 0)).unwrap().1;
        assert_eq!(newer.backends["b"].state, "new");
        assert!(ReplicaReport::read(&stored("[".to_owned(), 0)).is_none());
    }

    #[test]
    fn numbers_are_not_urgent() {
        let mut report = ReplicaReport::default();
        report
            .backends
            .insert("b".to_owned(), BackendNumbers::default());
        let before = report.to_store();
        report.backends.get_mut("b").unwrap().calls = 1;
        let after = report.to_store();
        assert!(before.urgent == after.urgent && before.text != after.text);
        report.restarts.insert("1".to_owned(), "b".to_owned());
        assert_ne!(report.to_store().urgent, after.urgent);
    }
}
