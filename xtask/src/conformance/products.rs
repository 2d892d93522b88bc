//! The servers of the three services against what the suite can ask of any server, whatever its
//! tools are. No service has to be there: each server looks for its own where nothing listens.

use std::fmt::Write;
use std::path::Path;
use std::thread;

use anyhow::{anyhow, bail};

use crate::console::line;
use crate::fixture;
use crate::layout::{Layout, create_dir};
use crate::services::Service;
use crate::tally::Tally;

use super::report::Report;

/// The scenarios of a revision that need no fixtures.
struct Part {
    revision: &'static str,
    scenarios: &'static [&'static str],
}

const PARTS: [Part; 2] = [
    Part {
        revision: "2025-11-25",
        scenarios: &[
            "server-initialize",
            "ping",
            "tools-list",
            "dns-rebinding-protection",
            "server-sse-multiple-streams",
            "server-session-lifecycle",
        ],
    },
    Part {
        revision: "2026-07-28",
        scenarios: &[
            "http-header-validation",
            "tools-list",
            "dns-rebinding-protection",
            STATELESS,
        ],
    },
];

const STATELESS: &str = "server-stateless";

/// The checks of [`STATELESS`] that call tools of the suite; the fixture server has those.
const UNTESTABLE: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

/// Runs the scenarios against the built servers side by side, with one line for each server.
/// The suite has been installed by the runs before.
pub(super) fn run(layout: &Layout) -> anyhow::Result<Tally> {
    let tallies = thread::scope(|scope| {
        let runs = Service::ALL.map(|service| scope.spawn(move || run_server(layout, service)));
        runs.map(|run| run.join().unwrap_or_else(|_| Err(anyhow!("it broke off"))))
    });
    if layout.stop.requested() {
        bail!("stopped");
    }
    let mut sum = Tally::default();
    for (service, tally) in Service::ALL.into_iter().zip(tallies) {
        match tally {
            Ok(tally) => sum += tally,
            Err(error) => {
                line(format_args!("FAILED   {}: {error:#}", service.server()));
                sum.failed += 1;
            }
        }
    }
    Ok(sum)
}

fn run_server(layout: &Layout, service: Service) -> anyhow::Result<Tally> {
    let name = service.server();
    let log = layout.fresh_log(&format!("conformance-{name}"))?;
    let results = super::results(layout, name)?;
    for part in &PARTS {
        create_dir(&results.join(part.revision))?;
    }
    let server_log = format!("conformance-{name}-server");
    let (server, port) = fixture::start_server(layout, name, &server_log, nowhere(service))?;
    let url = format!("http://localhost:{port}/mcp");
    // Its exit status is of no use: it cannot tell the untestable checks from others.
    super::suite(layout, name, super::NEWEST, &command(&url, &results), &log)?;
    drop(server);
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for part in &PARTS {
        let mut report = Report::read(&results.join(part.revision))?;
        report.demand(part.scenarios);
        if part.scenarios.contains(&STATELESS) {
            report.excuse(STATELESS, &UNTESTABLE);
        }
        tally += report.tally(true);
        failures.extend(
            report
                .failures()
                .map(|failure| format!("{failure} ({})", part.revision)),
        );
    }
    super::announce(layout, name, tally, failures.into_iter(), &log);
    Ok(tally)
}

/// What makes a server look for its service at a port that nothing listens on.
fn nowhere(service: Service) -> &'static [(&'static str, &'static str)] {
    match service {
        Service::N8n => &[
            ("N8N_URL", "http://127.0.0.1:1"),
            // Without a key it would not even try.
            ("N8N_API_KEY", "none"),
        ],
        Service::OpenHands => &[("OPENHANDS_URL", "http://127.0.0.1:1")],
        Service::Docker => &[("DOCKER_HOST", "tcp://127.0.0.1:1")],
    }
}

/// One line for the shell with all scenarios, each whatever became of the one before.
fn command(url: &str, results: &Path) -> String {
    let mut calls = String::new();
    for Part {
        revision,
        scenarios,
    } in &PARTS
    {
        let results = results.join(revision);
        for scenario in *scenarios {
            let _ = write!(
                calls,
                "conformance server --url {url} --scenario {scenario} --spec-version {revision} -o '{}'; ",
                results.display()
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
        assert!(
            calls[9].ends_with("server-stateless --spec-version 2026-07-28 -o 'out/2026-07-28'")
        );
    }
}
