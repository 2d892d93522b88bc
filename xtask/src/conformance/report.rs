//! Reads the reports of the suite: a folder for each scenario, with a list of checks.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::counts::TestCounts;

/// The scenario with checks that call tools of the suite; only the fixture server has those.
pub(super) const UNTESTABLE_SCENARIO: &str = "server-stateless";

/// The ids of those checks.
const UNTESTABLE: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

/// A warning that stays, and the reason.
pub(super) struct ExplainedWarning {
    pub(super) id: &'static str,
    pub(super) reason: &'static str,
}

const UNTESTABLE_PREFIX: &str = "Not testable: ";

#[derive(Debug, Default)]
pub(super) struct Report {
    checks: Vec<Check>,
}

#[derive(Debug)]
struct Check {
    scenario: String,
    id: String,
    status: String,
    message: String,
}

impl Report {
    /// Reads the folders in `results`.
    pub(super) fn read(results: &Path) -> anyhow::Result<Self> {
        let mut report = Self::default();
        let mut folders: Vec<_> = fs::read_dir(results)?.collect::<Result<_, _>>()?;
        folders.sort_by_key(fs::DirEntry::file_name);
        for folder in folders {
            let file = folder.path().join("checks.json");
            if file.exists() {
                let name = folder.file_name().to_string_lossy().into_owned();
                let checks = serde_json::from_slice(&fs::read(&file)?)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                report.add(scenario(&name), &checks);
            }
        }
        Ok(report)
    }

    fn add(&mut self, scenario: &str, checks: &Value) {
        for check in checks.as_array().into_iter().flatten() {
            let text = |member: &str| check[member].as_str().unwrap_or_default();
            self.push(scenario, text("id"), text("status"), text("errorMessage"));
        }
    }

    fn push(&mut self, scenario: &str, id: &str, status: &str, message: &str) {
        self.checks.push(Check {
            scenario: scenario.to_owned(),
            id: id.to_owned(),
            status: status.to_owned(),
            message: message.to_owned(),
        });
    }

    /// Adds a failure for each scenario that did not run, because the suite skips unknown ones and
    /// those of other revisions. Marks the untestable checks as skipped, and adds a failure for each
    /// that is not: the list of them is then wrong.
    pub(super) fn expect_scenarios(&mut self, scenarios: &[&str]) {
        for &scenario in scenarios {
            if !self.checks.iter().any(|check| check.scenario == scenario) {
                self.push(scenario, "all", "FAILURE", "it did not run");
            }
        }
        if !scenarios.contains(&UNTESTABLE_SCENARIO) {
            return;
        }
        for id in UNTESTABLE {
            let mut has_failed = false;
            let is_it = |check: &&mut Check| check.id == id && check.status == "FAILURE";
            for check in self.checks.iter_mut().filter(is_it) {
                has_failed = true;
                if check.message.starts_with(UNTESTABLE_PREFIX) {
                    "SKIPPED".clone_into(&mut check.status);
                }
            }
            if !has_failed {
                self.push(
                    UNTESTABLE_SCENARIO,
                    id,
                    "FAILURE",
                    "it should be untestable",
                );
            }
        }
    }

    /// Marks these warnings as skipped, for their reasons. Adds a failure for each that did not come: its
    /// explanation is then wrong.
    pub(super) fn explain(&mut self, warnings: &[ExplainedWarning]) {
        for ExplainedWarning { id, reason } in warnings {
            let is_it = |check: &&mut Check| check.id == *id && check.status == "WARNING";
            match self.checks.iter_mut().find(is_it) {
                Some(check) => {
                    "SKIPPED".clone_into(&mut check.status);
                    (*reason).clone_into(&mut check.message);
                }
                None => self.push("all", id, "FAILURE", "it should warn"),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// Counts all checks, required or not. A warning counts as a failure.
    pub(super) fn counts(&self) -> TestCounts {
        let with = |status: &str| {
            let checks = self.checks.iter();
            checks.filter(|check| check.status == status).count() as u64
        };
        let failed = with("FAILURE") + with("WARNING");
        TestCounts::new(with("SUCCESS"), failed, with("SKIPPED"))
    }

    pub(super) fn failures(&self) -> Vec<String> {
        let bad = |check: &&Check| matches!(&*check.status, "FAILURE" | "WARNING");
        let line = |check: &Check| {
            let (status, message) = (check.status.to_lowercase(), check.message.trim());
            let Check { scenario, id, .. } = check;
            format!("{status}: {scenario}, {id}: {message}")
        };
        self.checks.iter().filter(bad).map(line).collect()
    }
}

/// Returns the scenario in `server-ping-2026-11-21T08-33-29-062Z`.
fn scenario(folder: &str) -> &str {
    const TIME: usize = "-2026-11-21T08-33-29-062Z".len();
    let name = folder.strip_prefix("server-").unwrap_or(folder);
    let end = name.len().checked_sub(TIME);
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(scenario: &str, checks: &Value) -> Report {
        let mut report = Report::default();
        report.add(scenario, checks);
        report
    }

    #[test]
    fn checks_are_counted_and_failures_named() {
        let checks = json!([
            {"id": "ping", "status": "SUCCESS"},
            {"id": "pong", "status": "FAILURE", "errorMessage": "no answer\n"},
            {"id": "note", "status": "INFO"},
            {"id": "silence", "status": "WARNING", "errorMessage": "said nothing"},
            {"id": "odd", "status": "WARNING", "errorMessage": "odd"},
        ]);
        let mut report = report(scenario("server-ping-2026-11-21T08-33-29-062Z"), &checks);
        assert_eq!(report.counts().to_string(), "1 passed, 3 failed");
        report.expect_scenarios(&["ping", "tools-list"]);
        let reason = "because";
        report.explain(&["silence", "gone"].map(|id| ExplainedWarning { id, reason }));
        assert_eq!(report.counts().to_string(), "1 passed, 4 failed, 1 skipped");
        assert_eq!(
            report.failures(),
            [
                "failure: ping, pong: no answer",
                "warning: ping, odd: odd",
                "failure: tools-list, all: it did not run",
                "failure: all, gone: it should warn",
            ]
        );
    }

    #[test]
    fn untestable_checks_are_skipped_only_while_they_are_untestable() {
        let missing = "Not testable: server does not list the diagnostic tool";
        let checks = json!([
            {"id": "other", "status": "SUCCESS"},
            {"id": "unlisted", "status": "FAILURE", "errorMessage": missing},
            {"id": UNTESTABLE[0], "status": "FAILURE", "errorMessage": missing},
            {"id": UNTESTABLE[1], "status": "FAILURE", "errorMessage": "it answered 500"},
            {"id": UNTESTABLE[2], "status": "SUCCESS"},
        ]);
        let mut report = report(UNTESTABLE_SCENARIO, &checks);
        report.expect_scenarios(&[UNTESTABLE_SCENARIO]);
        assert_eq!(report.counts().to_string(), "2 passed, 4 failed, 1 skipped");
        let line =
            |id: &str, message: &str| format!("failure: {UNTESTABLE_SCENARIO}, {id}: {message}");
        assert_eq!(
            report.failures(),
            [
                line("unlisted", missing),
                line(UNTESTABLE[1], "it answered 500"),
                line(UNTESTABLE[2], "it should be untestable"),
                line(UNTESTABLE[3], "it should be untestable"),
            ]
        );
    }
}
