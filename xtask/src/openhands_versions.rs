//! `cargo xtask openhands-versions`: the tests of the OpenHands server on agent servers of several
//! versions. `cargo xtask openhands-app`: those on the V1 app server.

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
use crate::nextest::Nextest;
use crate::process::Program;
use crate::services::Service;
use crate::services::openhands::{OLDEST, OpenHands};
use crate::services::openhands_app::OpenHandsApp;

/// All but those that need another service, too.
const TESTS: &str = "test(/^openhands::/) & not test(/^openhands::app_server::/) \
     & not test(/task_runs_an_n8n_workflow|task_restarts_a_container_through_the_gateway/)";

const APP_TESTS: &str = "test(/^openhands::app_server::/)";

/// Runs the tests on the versions in the command line: by default the oldest that is supported, the one
/// that the newest `openhands-ai` of PyPI brings, and the newest of PyPI.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
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
    let mut rows = vec![["agent server", "passed", "failed", "time"].map(str::to_owned)];
    let mut is_good = true;
    for version in &versions {
        let started = Instant::now();
        let counts = test(layout, &OpenHands::new(version), version, TESTS);
        let TestCounts { passed, failed, .. } =
            counts.with_context(|| format!("OpenHands {version}"))?;
        is_good &= failed == 0;
        let time = format!("{} s", started.elapsed().as_secs());
        rows.push([
            version.clone(),
            passed.to_string(),
            failed.to_string(),
            time,
        ]);
    }
    print_line!("\n{}", table(&rows).trim_end());
    Ok(cargo::exit_code(is_good))
}

/// Runs the tests of tasks in sandboxes on the V1 app server.
pub(crate) fn run_app(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let counts = test(layout, &OpenHandsApp, "app", APP_TESTS)?;
    Ok(cargo::exit_code(counts.failed == 0))
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

/// Runs these tests on a service that is started for them.
fn test(
    layout: &Layout,
    service: &dyn Service,
    version: &str,
    tests: &str,
) -> anyhow::Result<TestCounts> {
    if let Some(obstacle) = service.obstacle(layout) {
        bail!(obstacle);
    }
    let nextest = Nextest::install(layout)?;
    service.install(layout)?;
    let instance = Instance::lock(layout, service.name(), Purpose::Test, 0)?;
    instance.clear()?;
    let running = service.start(layout, &instance)?;
    let env = service.test_environment(layout, &instance);
    let name = format!("openhands-{version}");
    let counts = nextest.run(layout, &name, ("--profile nightly", tests), &env)?;
    drop(running);
    instance.clear()?;
    Ok(counts)
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
}
