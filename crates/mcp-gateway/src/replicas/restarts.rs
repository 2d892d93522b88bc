//! Restarts of a backend at all replicas. The one that is asked writes it into its report; each of the others restarts
//! its own backend when it reads that, and writes the outcome into its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gateway_store::replicas::ReplicaTable;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::report::ReplicaReport;

/// Longest wait for the others: some beats.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(4);
/// The time for which a restart is in the reports. A replica that does not read it in time does not restart.
const SHOWN_FOR: Duration = Duration::from_secs(15);

/// The restarts for others, and those by others.
#[derive(Default)]
pub(crate) struct Restarts(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By their id: the backend.
    asked: BTreeMap<String, (String, Instant)>,
    /// By their id: the outcome here.
    done: BTreeMap<String, (String, Instant)>,
    /// True once the reports were read for the first time: earlier restarts are not for this process.
    has_read: bool,
}

impl Restarts {
    /// Adds them to the own report.
    pub(crate) fn write(&self, report: &mut ReplicaReport) {
        let mut known = self.0.lock();
        let is_new = |since: &Instant| since.elapsed() < SHOWN_FOR;
        known.asked.retain(|_, (_, since)| is_new(since));
        // Longer: another one may still show the restart.
        let is_known = |since: &Instant| since.elapsed() < SHOWN_FOR * 4;
        known.done.retain(|_, (_, since)| is_known(since));
        let copy = |all: &BTreeMap<String, (String, Instant)>| {
            let all = all.iter();
            all.map(|(id, (text, _))| (id.clone(), text.clone()))
                .collect()
        };
        (report.restarts, report.restarted) = (copy(&known.asked), copy(&known.done));
    }

    /// Follows the reports of others: `restart` restarts the backend of this name here, and returns the outcome.
    /// Returns true if there is a new outcome.
    pub(crate) fn read(&self, others: &[ReplicaReport], restart: impl Fn(&str) -> String) -> bool {
        let mut known = self.0.lock();
        let is_first = !std::mem::replace(&mut known.has_read, true);
        let wanted = others.iter().flat_map(|report| &report.restarts);
        let mut is_new = false;
        for (id, backend) in wanted {
            if known.done.contains_key(id) {
                continue;
            }
            let outcome = match is_first {
                true => "has just started".to_owned(),
                false => restart(backend),
            };
            known.done.insert(id.clone(), (outcome, Instant::now()));
            is_new = true;
        }
        is_new
    }

    /// Makes all other replicas restart a backend. Returns the outcome of each, by its id.
    pub(crate) async fn ask(
        &self,
        table: &ReplicaTable,
        backend: &str,
    ) -> BTreeMap<String, String> {
        let id = Uuid::new_v4().simple().to_string();
        let asked = (backend.to_owned(), Instant::now());
        self.0.lock().asked.insert(id.clone(), asked);
        let others: BTreeSet<String> = table
            .list()
            .into_iter()
            .filter(|one| one.is_alive && one.has_same_key)
            .filter(|one| one.id != mcp_serve::process_id())
            .map(|one| one.id.to_string())
            .collect();
        table.show_now();
        let mut readings = table.readings();
        let all = async {
            while outcomes(table, &id).len() < others.len() && readings.changed().await.is_ok() {}
        };
        // The rest is told below.
        let _ = timeout(OUTCOME_TIMEOUT, all).await;
        let mut found = outcomes(table, &id);
        for other in others {
            let late = || "has not answered yet".to_owned();
            found.entry(other).or_insert_with(late);
        }
        found
    }
}

/// The outcomes of a restart in the reports of others.
fn outcomes(table: &ReplicaTable, id: &str) -> BTreeMap<String, String> {
    let reports = table.reports();
    let reports = reports.iter().filter_map(ReplicaReport::read);
    let outcomes = reports.filter_map(|(replica, report)| {
        let outcome = report.restarted.get(id)?.clone();
        Some((replica.to_string(), outcome))
    });
    outcomes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(id: &str) -> ReplicaReport {
        ReplicaReport {
            restarts: [(id.to_owned(), "b".to_owned())].into(),
            ..ReplicaReport::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_restart_is_made_once_and_not_by_a_process_that_begins_later() {
        let restarts = Restarts::default();
        let count = Mutex::new(0);
        let restart = |backend: &str| {
            *count.lock() += 1;
            format!("restarted {backend}")
        };
        assert!(restarts.read(&[asking("old")], restart));
        assert_eq!(*count.lock(), 0);
        assert!(restarts.read(&[asking("old"), asking("new")], restart));
        assert!(!restarts.read(&[asking("old"), asking("new")], restart));
        assert_eq!(*count.lock(), 1);
        let mut report = ReplicaReport::default();
        restarts.write(&mut report);
        assert_eq!(report.restarted["new"], "restarted b");
        assert_eq!(report.restarted["old"], "has just started");
        tokio::time::advance(SHOWN_FOR * 5).await;
        restarts.write(&mut report);
        assert!(report.restarted.is_empty());
    }
}
