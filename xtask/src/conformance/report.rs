//! What the suite writes down: a folder for each scenario, with a list of checks.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::tally::Tally;

/// How the message of a check begins that fails because the suite's own tools are not there.
const UNTESTABLE: &str = "Not testable: ";

/// All checks of one run.
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
            if !file.exists() {
                continue;
            }
            let name = folder.file_name().to_string_lossy().into_owned();
            let checks = serde_json::from_slice(&fs::read(&file)?)
                .with_context(|| format!("cannot read {}", file.display()))?;
            report.add(scenario(&name), &checks);
        }
        Ok(report)
    }

    fn add(&mut self, scenario: &str, checks: &Value) {
        let checks = checks.as_array().into_iter().flatten();
        self.checks.extend(checks.map(|check| {
            let text = |member: &str| check[member].as_str().unwrap_or_default();
            Check::new(scenario, text("id"), text("status"), text("errorMessage"))
        }));
    }

    /// Notes a failure for each of these scenarios that did not run: the suite passes over those
    /// that it does not know or that do not belong to the revision.
    pub(super) fn demand(&mut self, scenarios: &[&str]) {
        for &scenario in scenarios {
            if !self.checks.iter().any(|check| check.scenario == scenario) {
                self.checks
                    .push(Check::failed(scenario, "all", "it did not run"));
            }
        }
    }

    /// Counts checks as skipped that need a tool of the suite, which this server has not. One that
    /// the suite does not call untestable has failed, even if it is content with it: the list of
    /// such checks is then wrong.
    pub(super) fn excuse(&mut self, scenario: &str, ids: &[&str]) {
        for &id in ids {
            let mut seen = false;
            let named = |check: &&mut Check| check.scenario == scenario && check.id == id;
            for check in self.checks.iter_mut().filter(named) {
                seen = true;
                match &*check.status {
                    "FAILURE" if check.message.starts_with(UNTESTABLE) => {
                        "SKIPPED".clone_into(&mut check.status);
                    }
                    "FAILURE" => {}
                    status => {
                        let message = format!("expected to be untestable, but it is {status}");
                        *check = Check::failed(scenario, id, &message);
                    }
                }
            }
            if !seen {
                let message = "expected to be untestable, but it did not run";
                self.checks.push(Check::failed(scenario, id, message));
            }
        }
    }

    /// True if no scenario ran.
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// Counts all checks, required or not.
    pub(super) fn tally(&self) -> Tally {
        let with = |status: &str| {
            let checks = self.checks.iter();
            checks.filter(|check| check.status == status).count() as u64
        };
        Tally::new(with("SUCCESS"), with("FAILURE"), with("SKIPPED"))
    }

    /// A line for each check that failed, and for each that the suite is not happy with.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let bad = |check: &&Check| matches!(&*check.status, "FAILURE" | "WARNING");
        self.checks.iter().filter(bad).map(|check| {
            let (status, message) = (check.status.to_lowercase(), check.message.trim());
            let Check { scenario, id, .. } = check;
            format!("         {status}: {scenario}, {id}: {message}")
        })
    }
}

impl Check {
    fn new(scenario: &str, id: &str, status: &str, message: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            id: id.to_owned(),
            status: status.to_owned(),
            message: message.to_owned(),
        }
    }

    fn failed(scenario: &str, id: &str, message: &str) -> Self {
        Self::new(scenario, id, "FAILURE", message)
    }
}

/// The scenario in `server-ping-2026-11-21T08-33-29-062Z`.
fn scenario(folder: &str) -> &str {
    const TIME: usize = "-2026-11-21T08-33-29-062Z".len();
    let name = folder.strip_prefix("server-").unwrap_or(folder);
    name.len()
        .checked_sub(TIME)
        .and_then(|end| name.get(..end))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn checks_are_counted_and_failures_named() {
        let mut report = Report::default();
        report.add(
            scenario("server-ping-2026-11-21T08-33-29-062Z"),
            &json!([
                {"id": "ping", "status": "SUCCESS"},
                {"id": "pong", "status": "FAILURE", "errorMessage": "no answer\n"},
                {"id": "note", "status": "INFO"},
            ]),
        );
        assert_eq!(report.tally().to_string(), "1 passed, 1 failed");
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures, ["         failure: ping, pong: no answer"]);
    }

    #[test]
    fn a_scenario_that_did_not_run_has_failed() {
        let mut report = Report::default();
        report.add("ping", &json!([{"id": "ping", "status": "SUCCESS"}]));
        report.demand(&["ping", "tools-list"]);
        assert_eq!(report.tally().to_string(), "1 passed, 1 failed");
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(
            failures,
            ["         failure: tools-list, all: it did not run"]
        );
    }

    #[test]
    fn untestable_checks_are_skipped_only_while_they_are_untestable() {
        let missing = "Not testable: server does not list the diagnostic tool";
        let mut report = Report::default();
        report.add(
            "stateless",
            &json!([
                {"id": "other", "status": "SUCCESS"},
                {"id": "unlisted", "status": "FAILURE", "errorMessage": missing},
                {"id": "untestable", "status": "FAILURE", "errorMessage": missing},
                {"id": "wrong", "status": "FAILURE", "errorMessage": "it answered 500"},
                {"id": "passes", "status": "SUCCESS"},
            ]),
        );
        report.excuse("stateless", &["untestable", "wrong", "passes", "gone"]);
        assert_eq!(report.tally().to_string(), "1 passed, 4 failed, 1 skipped");
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(
            failures,
            [
                "         failure: stateless, unlisted: Not testable: server does not list the diagnostic tool",
                "         failure: stateless, wrong: it answered 500",
                "         failure: stateless, passes: expected to be untestable, but it is SUCCESS",
                "         failure: stateless, gone: expected to be untestable, but it did not run",
            ]
        );
    }
}
