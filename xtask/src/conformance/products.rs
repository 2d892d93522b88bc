//! The servers of the three services against what the suite can ask of any server, whatever its
//! tools are. No service has to be there: each server looks for its own where nothing listens.

use std::fmt::Write;
use std::path::Path;

use anyhow::bail;

use super::report::Report;
use super::suite::{self, NEWEST, Run};
use crate::fixture;
use crate::layout::{Layout, create_dir};
use crate::parallel;
use crate::servers::{SERVERS, Server};
use crate::tally::Tally;

/// The scenarios that need no fixtures, by revision.
const SCENARIOS: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "server-initialize",
            "ping",
            "tools-list",
            "dns-rebinding-protection",
            "server-sse-multiple-streams",
            "server-session-lifecycle",
        ],
    ),
    (
        "2026-07-28",
        &[
            "http-header-validation",
            "tools-list",
            "dns-rebinding-protection",
            STATELESS,
        ],
    ),
];

const STATELESS: &str = "server-stateless";

/// The checks of [`STATELESS`] that call tools of the suite; the fixture server has those.
const UNTESTABLE: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

/// Configures all servers so that each looks for its service at a port that nothing listens on; the
/// one for n8n would not even try without a key.
const NOWHERE: [(&str, &str); 4] = [
    ("N8N_URL", "http://127.0.0.1:1"),
    ("N8N_API_KEY", "none"),
    ("OPENHANDS_URL", "http://127.0.0.1:1"),
    ("DOCKER_HOST", "tcp://127.0.0.1:1"),
];

/// Runs the scenarios against the built servers side by side, with one line for each server.
/// The suite has been installed by the runs before.
pub(super) fn run(layout: &Layout) -> anyhow::Result<Tally> {
    let tallies = parallel::map(&SERVERS, |server| run_server(layout, server));
    if layout.stop.requested() {
        bail!("stopped");
    }
    let mut sum = Tally::default();
    for (server, tally) in SERVERS.iter().zip(tallies) {
        sum += Tally::from_result(server.program, tally);
    }
    Ok(sum)
}

fn run_server(layout: &Layout, server: &'static Server) -> anyhow::Result<Tally> {
    let name = server.program;
    let run = Run::new(layout, name)?;
    for (revision, _) in SCENARIOS {
        create_dir(&run.results.join(revision))?;
    }
    let log = format!("conformance-{name}-server");
    let server = fixture::start(layout, name, &log, &NOWHERE)?;
    // Its exit status is of no use: it cannot tell the untestable checks from others.
    let command = command(&suite::url(server.port), &run.results);
    run.perform(layout, NEWEST, &command)?;
    drop(server);
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for (revision, scenarios) in SCENARIOS {
        let mut report = Report::read(&run.results.join(revision))?;
        report.demand(scenarios);
        if scenarios.contains(&STATELESS) {
            report.excuse(STATELESS, &UNTESTABLE);
        }
        tally += report.tally().or_failed(true);
        let named = report.failures().map(|text| format!("{text} ({revision})"));
        failures.extend(named);
    }
    run.announce(layout, tally, failures.into_iter());
    Ok(tally)
}

/// Returns one line for the shell with all scenarios, each whatever became of the one before.
fn command(url: &str, results: &Path) -> String {
    let mut calls = String::new();
    for (revision, scenarios) in SCENARIOS {
        let results = results.join(revision);
        let results = results.display();
        for scenario in scenarios {
            let _ = write!(
                calls,
                "conformance server --url {url} --scenario {scenario} --spec-version {revision} -o '{results}'; "
            );
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_its_call_and_every_revision_its_folder() {
        let line = command("http://localhost:1/mcp", Path::new("out"));
        let calls: Vec<_> = line.split_terminator("; ").collect();
        assert_eq!(calls.len(), 10);
        assert_eq!(
            calls[1],
            "conformance server --url http://localhost:1/mcp --scenario ping --spec-version 2025-11-25 -o 'out/2025-11-25'"
        );
        let last = "server-stateless --spec-version 2026-07-28 -o 'out/2026-07-28'";
        assert!(calls[9].ends_with(last));
    }
}
