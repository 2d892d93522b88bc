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

    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// Counts all checks, required or not.
    pub(super) fn counts(&self) -> TestCounts {
        let with = |status: &str| {
            let checks = self.checks.iter();
            checks.filter(|check| check.status == status).count() as u64
        };
        TestCounts::new(with("SUCCESS"), with("FAILURE"), with("SKIPPED"))
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
        ]);
        let mut report = report(scenario("server-ping-2026-11-21T08-33-29-062Z"), &checks);
        assert_eq!(report.counts().to_string(), "1 passed, 1 failed");
        report.expect_scenarios(&["ping", "tools-list"]);
        assert_eq!(report.counts().to_string(), "1 passed, 2 failed");
        assert_eq!(
            report.failures(),
            [
                "failure: ping, pong: no answer",
                "failure: tools-list, all: it did not run",
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
