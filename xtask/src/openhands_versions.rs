//! `cargo xtask openhands-versions`: the tests of the OpenHands server on agent servers of several
//! versions. `cargo xtask openhands-app`: those on the V1 app server.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::args::Options;
use crate::cargo;
use crate::console::{Heartbeat, table};
use crate::counts::TestCounts;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::Program;
use crate::services::Service;
use crate::services::openhands::{OLDEST, OpenHands};
use crate::services::openhands_app::OpenHandsApp;

const BUILD: &str = "build --package openhands-mcp-server --bins";

/// The names of skipped tests are in the output of tests that passed.
const TESTS: &str = "test --package tests --no-fail-fast -- --show-output";

/// Runs the tests on the versions in the command line: by default the oldest that is supported, the one
/// that the newest `openhands-ai` of PyPI brings, and the newest of PyPI.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let mut versions = options.words.clone();
    if versions.is_empty() {
        let newest = Newest::ask(layout)?;
        print_line!(
            "PyPI has openhands-ai {} with the agent server {}, and the agent server {}",
            newest.app,
            newest.of_app,
            newest.agent_server
        );
        versions = vec![OLDEST.to_owned(), newest.of_app, newest.agent_server];
        versions.dedup();
    }
    let mut rows = vec![["agent server", "passed", "failed", "skipped", "time"].map(str::to_owned)];
    let mut names = Vec::new();
    let mut is_good = true;
    for version in &versions {
        let started = Instant::now();
        let service = OpenHands::new(version);
        let outcome = test(layout, &service, version, "openhands::");
        let outcome = outcome.with_context(|| format!("OpenHands {version}"))?;
        let TestCounts { passed, failed, .. } = outcome.counts;
        is_good &= failed == 0 && passed > 0;
        let time = format!("{} s", started.elapsed().as_secs());
        let [passed, failed, skipped] = outcome.numbers().map(|count| count.to_string());
        rows.push([version.clone(), passed, failed, skipped, time]);
        let named = |what: &str, tests: BTreeSet<String>| {
            let line = |test| format!("{version}: {what} {test}");
            tests.into_iter().map(line).collect::<Vec<_>>()
        };
        names.extend(named("failed", outcome.failed));
        names.extend(named("skipped", outcome.skipped));
    }
    print_line!("\n{}", table(&rows).trim_end());
    for line in names {
        print_line!("{line}");
    }
    Ok(cargo::exit_code(is_good))
}

/// Runs the tests of tasks in sandboxes on the V1 app server.
pub(crate) fn run_app(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let outcome = test(layout, &OpenHandsApp, "app", "openhands::app_server")?;
    let [passed, failed, skipped] = outcome.numbers();
    print_line!("\n{passed} passed, {failed} failed, {skipped} skipped");
    for test in &outcome.failed {
        print_line!("failed {test}");
    }
    let is_good = outcome.counts.failed == 0 && outcome.counts.passed > 0;
    Ok(cargo::exit_code(is_good && outcome.skipped.is_empty()))
}

/// The newest versions on PyPI.
struct Newest {
    app: String,
    /// The agent server that this `openhands-ai` requires.
    of_app: String,
    agent_server: String,
}

impl Newest {
    /// Asks pip what it would install. The package `openhands-ai` names one version of the agent server.
    fn ask(layout: &Layout) -> anyhow::Result<Self> {
        let report = layout.log("openhands-newest")?.with_extension("json");
        let log = layout.fresh_log("openhands-newest")?;
        let python = OpenHands::install_python(layout)?;
        let pip = "-m pip install --dry-run --ignore-installed --no-deps --report";
        Program::new(python)?
            .words(pip)
            .args([&report])
            .words("openhands-ai openhands-agent-server")
            .log_to(&log)?
            .run(
                &layout.shutdown,
                Heartbeat::start("openhands", "asking PyPI"),
            )
            .with_context(|| format!("pip: {}", layout.shown(&log)))?;
        Self::parse(&fs::read_to_string(report)?).context("pip reports something unexpected")
    }

    fn parse(report: &str) -> Option<Self> {
        let report: Value = serde_json::from_str(report).ok()?;
        let package = |name: &str| {
            let mut packages = report["install"].as_array()?.iter();
            packages.find_map(|package| {
                let metadata = &package["metadata"];
                (metadata["name"] == name).then_some(metadata)
            })
        };
        let version = |name| Some(package(name)?["version"].as_str()?.to_owned());
        let mut required = package("openhands-ai")?["requires_dist"].as_array()?.iter();
        let of_app = required.find_map(|line| {
            // "openhands-agent-server (==1.34.0)"
            let line = line.as_str()?.strip_prefix("openhands-agent-server")?;
            let version = line.trim_matches([' ', '(', ')', '=']);
            version
                .starts_with(|c: char| c.is_ascii_digit())
                .then(|| version.to_owned())
        });
        Some(Self {
            app: version("openhands-ai")?,
            of_app: of_app?,
            agent_server: version("openhands-agent-server")?,
        })
    }
}

/// The results of the tests on one version.
struct Outcome {
    counts: TestCounts,
    failed: BTreeSet<String>,
    /// Tests that found something missing and ended early.
    skipped: BTreeSet<String>,
}

/// Runs the tests of one module on a service that is started for them.
fn test(
    layout: &Layout,
    service: &dyn Service,
    version: &str,
    module: &str,
) -> anyhow::Result<Outcome> {
    if let Some(obstacle) = service.obstacle(layout) {
        bail!(obstacle);
    }
    service.install(layout)?;
    let instance = Instance::lock(layout, service.name(), Purpose::Test, 0)?;
    instance.clear()?;
    let running = service.start(layout, &instance)?;
    let log = layout.fresh_log(&format!("openhands-{version}"))?;
    let heartbeat = Heartbeat::start("openhands", format!("testing with {version}"));
    Program::new("cargo")?
        .words(TESTS)
        .args([module])
        .envs([("CARGO_TERM_COLOR", "never")])
        .envs([("MCP_TEST_BIN_DIR", layout.binaries(false))])
        .envs(service.test_environment(layout, &instance))
        .dir(&layout.root)
        .log_to(&log)?
        .succeeds(&layout.shutdown, Some(heartbeat))?;
    drop(running);
    instance.clear()?;
    Ok(Outcome::parse(&fs::read_to_string(&log)?))
}

impl Outcome {
    /// Tests that passed, failed and were skipped. Those of other modules do not count.
    fn numbers(&self) -> [u64; 3] {
        let skipped = self.skipped.len() as u64;
        [self.counts.passed - skipped, self.counts.failed, skipped]
    }

    fn parse(output: &str) -> Self {
        let mut outcome = Self {
            counts: TestCounts::from_cargo(output),
            failed: BTreeSet::new(),
            skipped: BTreeSet::new(),
        };
        let mut shown = None;
        for line in output.lines() {
            let test = line.strip_prefix("test ");
            if let Some(test) = test.and_then(|line| line.strip_suffix(" ... FAILED")) {
                outcome.failed.insert(test.to_owned());
            } else if let Some(rest) = line.strip_prefix("---- ") {
                shown = rest.strip_suffix(" stdout ----");
            } else if let (Some(test), Some(why)) = (shown, line.strip_prefix("skipped: ")) {
                outcome.skipped.insert(format!("{test} ({why})"));
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_agent_server_is_read_from_the_report() {
        let report = r#"{"install": [
            {"metadata": {"name": "openhands-ai", "version": "1.11.0", "requires_dist":
                ["openhands-aci", "openhands-agent-server (==1.34.0)", "openhands-sdk (==1.34.0)"]}},
            {"metadata": {"name": "openhands-agent-server", "version": "1.58.2"}}]}"#;
        let newest = Newest::parse(report).unwrap();
        let Newest {
            app,
            of_app,
            agent_server,
        } = newest;
        assert_eq!([app, of_app, agent_server], ["1.11.0", "1.34.0", "1.58.2"]);
        assert!(Newest::parse("{}").is_none());
    }

    #[test]
    fn skipped_and_failed_tests_are_named() {
        let output = "test a::b ... ok\ntest a::c ... FAILED\n\nsuccesses:\n\n---- a::b stdout ----\n\
                      skipped: MCP_TEST_N8N_URL is not set\n\n---- a::c stdout ----\nskipped\n\n\
                      test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        let outcome = Outcome::parse(output);
        assert_eq!(outcome.counts, TestCounts::new(1, 1, 0));
        assert_eq!(outcome.failed, BTreeSet::from(["a::c".to_owned()]));
        let skipped = "a::b (MCP_TEST_N8N_URL is not set)";
        assert_eq!(outcome.skipped, BTreeSet::from([skipped.to_owned()]));
    }
}
