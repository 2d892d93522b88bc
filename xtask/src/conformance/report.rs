//! What the suite writes down: a folder for each scenario, with a list of checks.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::tally::Tally;

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
        let text =
            |check: &Value, member: &str| check[member].as_str().unwrap_or_default().to_owned();
        let checks = checks.as_array().into_iter().flatten();
        self.checks.extend(checks.map(|check| Check {
            scenario: scenario.to_owned(),
            id: text(check, "id"),
            status: text(check, "status"),
            message: text(check, "errorMessage"),
        }));
    }

    /// True if no scenario ran.
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// All checks, required or not; a suite that failed without saying where counts as one failure.
    pub(super) fn tally(&self, succeeded: bool) -> Tally {
        let with = |status: &'static str| {
            let checks = self
                .checks
                .iter()
                .filter(move |check| check.status == status);
            checks.count() as u64
        };
        let mut tally = Tally {
            passed: with("SUCCESS"),
            failed: with("FAILURE"),
            skipped: with("SKIPPED"),
        };
        if tally.failed == 0 && (!succeeded || tally.passed == 0) {
            tally.failed = 1;
        }
        tally
    }

    /// A line for each check that failed, and for each that the suite is not happy with.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let bad = |check: &&Check| matches!(&*check.status, "FAILURE" | "WARNING");
        self.checks.iter().filter(bad).map(|check| {
            let Check {
                scenario,
                id,
                status,
                message,
            } = check;
            let status = status.to_lowercase();
            format!("         {status}: {scenario}, {id}: {}", message.trim())
        })
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
        assert_eq!(report.tally(false).to_string(), "1 passed, 1 failed");
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures, ["         failure: ping, pong: no answer"]);
    }

    #[test]
    fn a_suite_that_ran_nothing_has_failed() {
        assert_eq!(Report::default().tally(true).failed, 1);
        assert!(Report::default().is_empty());
    }
}
