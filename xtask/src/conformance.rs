//! `cargo xtask conformance`: runs the official suite of the protocol against our fixture server, alone
//! and behind the gateway, with a client behind the gateway against the suite's server, and the
//! scenarios that need no fixtures against the servers of the services.

mod report;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::cargo;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::install::{REGISTRY_SETTINGS, unavailable, was_offline};
use crate::instance::clear_dir;
use crate::layout::{Layout, create_dir, on_path, path_with};
use crate::process::Program;
use crate::servers::{Gateway, SERVERS, Server};
use crate::test_server::{self, FIXTURE, NO_SERVICES, RunningServer};

use report::{ExplainedWarning, Report, UNTESTABLE_SCENARIO};

/// The suite needs a newer Node.js than many machines have; npm has that as a package.
const NODE: &str = "node@22";

/// The version of `@modelcontextprotocol/conformance` that knows all revisions.
const NEWEST: &str = "0.2.0-alpha.12";

/// The runs against the fixture server: a name, a version of the suite, and a selection.
const RUNS: [(&str, &str, &str); 3] = [
    ("2025-11-25", NEWEST, "--requirements 2025-11-25"),
    ("2026-07-28", NEWEST, "--requirements 2026-07-28"),
    ("0.1.16", "0.1.16", "--suite all"),
];

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
            UNTESTABLE_SCENARIO,
        ],
    ),
];

/// A scenario in which the server of the suite asks on its GET stream.
const CLIENT_SCENARIO: &str = "elicitation-sep1034-client-defaults";

/// The client of that scenario, an example of `mcp-client`.
const CLIENT: &str = "examples/conformance";

/// The client of the scenarios of logins, an example of `mcp-client`.
const LOGIN_CLIENT: &str = "examples/conformance_auth";

/// Scenarios of logins that are not in the set `auth` of the suite.
const LOGIN_SCENARIOS: [&str; 12] = [
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
    "client-credentials-basic",
];

/// The warnings about the gateway: it tells its clients of a changed list only if the list has changed.
/// The suite makes the fixture announce changes of lists that stay the same.
const GATEWAY_WARNINGS: [ExplainedWarning; 2] = [
    ExplainedWarning {
        id: "sep-2575-server-sends-tools-list-changed-on-subscription",
        reason: "the gateway reads the list again, and it is the same",
    },
    ExplainedWarning {
        id: "sep-2575-server-sends-prompts-list-changed-on-subscription",
        reason: "the gateway reads the list again, and it is the same",
    },
];

/// The same warnings about the servers of services, whose lists the suite cannot change.
const PRODUCT_WARNINGS: [ExplainedWarning; 2] = [
    ExplainedWarning {
        id: GATEWAY_WARNINGS[0].id,
        reason: "the server has no tool of the suite that changes its lists",
    },
    ExplainedWarning {
        id: GATEWAY_WARNINGS[1].id,
        reason: "the server has no tool of the suite that changes its lists",
    },
];

pub(crate) fn command(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let counts = TestCounts::from_result("conformance", run(layout));
    print_line!("{counts}");
    Ok(cargo::exit_code(counts.failed == 0))
}

/// The newest suite, in both of its revisions, against the fixture server.
///
/// # Errors
/// [`crate::install::Unavailable`] if the suite is not available here, among others.
pub(crate) fn run_newest(layout: &Layout) -> anyhow::Result<TestCounts> {
    let server = test_server::start(layout, FIXTURE, "conformance-server", &[])?;
    let mut sum = TestCounts::default();
    for (name, version, selection) in RUNS.into_iter().filter(|run| run.1 == NEWEST) {
        sum += run_fixture(layout, name, version, selection, server.port, &[])?;
    }
    Ok(sum)
}

/// Runs all suites against all of the built servers, with one line for each run.
///
/// # Errors
/// [`crate::install::Unavailable`] if the suite is not available here, among others.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<TestCounts> {
    let server = test_server::start(layout, FIXTURE, "conformance-server", &[])?;
    let mut sum = TestCounts::default();
    for (name, version, selection) in RUNS {
        sum += run_fixture(layout, name, version, selection, server.port, &[])?;
    }
    // The gateway relays everything that the fixture server offers.
    let gateway = start_gateway(layout, server.port)?;
    for (name, version, selection) in RUNS.into_iter().filter(|run| run.1 == NEWEST) {
        let warnings: &[_] = match name {
            "2026-07-28" => &GATEWAY_WARNINGS,
            _ => &[],
        };
        let name = format!("gateway-{name}");
        sum += run_fixture(layout, &name, version, selection, gateway.port, warnings)?;
    }
    drop((gateway, server));
    sum += run_client_scenario(layout)?;
    sum += run_login_scenarios(layout)?;
    let run = |server| run_product(layout, server);
    sum += TestCounts::run_each(layout, &SERVERS, |server| server.program, run)?;
    Ok(sum)
}

/// Starts the gateway in front of the server on this port, whose tools keep their names.
fn start_gateway(layout: &Layout, backend: u16) -> anyhow::Result<RunningServer> {
    let file = results_dir(layout, "gateway")?.join("gateway.toml");
    let url = url(backend);
    let config = format!("[backends.fixture]\nurl = \"{url}\"\nbare = true\n");
    fs::write(&file, config)?;
    let file = file.to_string_lossy();
    let env = [
        ("MCP_GATEWAY_CONFIG", &*file),
        ("MCP_GATEWAY_EVENTS", "memory"),
    ];
    test_server::start(layout, Gateway::PROGRAM, "conformance-gateway", &env)
}

fn run_fixture(
    layout: &Layout,
    name: &str,
    version: &str,
    selection: &str,
    port: u16,
    warnings: &[ExplainedWarning],
) -> anyhow::Result<TestCounts> {
    let run = SuiteRun::new(layout, name)?;
    let (url, results) = (url(port), run.results.display());
    let command = format!("conformance server --url {url} {selection} -o '{results}'");
    let has_succeeded = run.succeeds(version, &command)?;
    let mut report = Report::read(&run.results)?;
    if report.is_empty() && was_offline(&fs::read_to_string(&run.log)?) {
        bail!(unavailable("no network, npm could not reach its registry"));
    }
    report.explain(warnings);
    let counts = report.counts().or_failed(has_succeeded);
    run.print(counts, report.failures());
    Ok(counts)
}

/// Runs a client behind the gateway, whose backend is the server of the suite.
fn run_client_scenario(layout: &Layout) -> anyhow::Result<TestCounts> {
    let run = SuiteRun::new(layout, "gateway-client")?;
    let binaries = layout.binaries(false);
    let (client, gateway) = (binaries.join(CLIENT), binaries.join(Gateway::PROGRAM));
    // The suite appends the URL of its server to the command, and runs it in a shell.
    let script = run.results.join("client.sh");
    let (client, gateway) = (client.display(), gateway.display());
    fs::write(
        &script,
        format!("exec '{client}' '{gateway}' --stdio --events memory --backend \"suite=$1\"\n"),
    )?;
    let (script, results) = (script.display(), run.results.display());
    let command = format!(
        "conformance client --command \"sh '{script}'\" --scenario {CLIENT_SCENARIO} -o '{results}'"
    );
    let has_succeeded = run.succeeds(NEWEST, &command)?;
    let mut report = Report::read(&run.results)?;
    report.expect_scenarios(&[CLIENT_SCENARIO]);
    let counts = report.counts().or_failed(has_succeeded);
    run.print(counts, report.failures());
    Ok(counts)
}

/// Runs the scenarios in which a client logs in.
fn run_login_scenarios(layout: &Layout) -> anyhow::Result<TestCounts> {
    let run = SuiteRun::new(layout, "client-auth")?;
    let client = layout.binaries(false).join(LOGIN_CLIENT);
    let client = format!("conformance client --command '{}'", client.display());
    let results = |revision: &str| run.results.join(revision);
    let mut commands = String::new();
    for (revision, _) in SCENARIOS {
        let results = results(revision);
        create_dir(&results)?;
        let results = results.display();
        let _ = write!(
            commands,
            "{client} --suite auth --spec-version {revision} -o '{results}'; "
        );
    }
    let newest = results("2026-07-28");
    for scenario in LOGIN_SCENARIOS {
        let version = match scenario {
            // Of an extension, which has no version.
            "client-credentials-basic" => "",
            _ => "--spec-version 2026-07-28",
        };
        let results = newest.display();
        let _ = write!(
            commands,
            "{client} --scenario auth/{scenario} {version} -o '{results}'; "
        );
    }
    run.succeeds(NEWEST, &commands)?;
    let (mut counts, mut failures) = (TestCounts::default(), Vec::new());
    for (revision, _) in SCENARIOS {
        let mut report = Report::read(&results(revision).join("auth"))?;
        report.expect_scenarios(&["metadata-default", "pre-registration", "scope-step-up"]);
        if revision == "2026-07-28" {
            report.expect_scenarios(&LOGIN_SCENARIOS);
        }
        counts += report.counts().or_failed(true);
        failures.extend(report.failures());
    }
    run.print(counts, failures);
    Ok(counts)
}

/// Runs the scenarios without fixtures against a server, without its service. The earlier runs have
/// installed the suite.
fn run_product(layout: &Layout, server: &Server) -> anyhow::Result<TestCounts> {
    let name = server.program;
    let run = SuiteRun::new(layout, name)?;
    for (revision, _) in SCENARIOS {
        create_dir(&run.results.join(revision))?;
    }
    let log = format!("conformance-{name}-server");
    let server = test_server::start(layout, name, &log, &NO_SERVICES)?;
    // Its exit status is ignored: it counts the untestable checks as failures.
    run.succeeds(NEWEST, &scenario_commands(&url(server.port), &run.results))?;
    drop(server);
    let mut counts = TestCounts::default();
    let mut failures = Vec::new();
    for (revision, scenarios) in SCENARIOS {
        let mut report = Report::read(&run.results.join(revision))?;
        report.expect_scenarios(scenarios);
        if revision == "2026-07-28" {
            report.explain(&PRODUCT_WARNINGS);
        }
        counts += report.counts().or_failed(true);
        let named = report.failures().into_iter();
        failures.extend(named.map(|text| format!("{text} ({revision})")));
    }
    run.print(counts, failures);
    Ok(counts)
}

/// Returns a shell command line that runs each scenario, also after a failure.
fn scenario_commands(url: &str, results: &Path) -> String {
    let mut commands = String::new();
    for (revision, scenarios) in SCENARIOS {
        let results = results.join(revision);
        let results = results.display();
        for scenario in scenarios {
            let _ = write!(
                commands,
                "conformance server --url {url} --scenario {scenario} --spec-version {revision} -o '{results}'; "
            );
        }
    }
    commands
}

/// Returns the address of a server; the suite accepts only the name `localhost`.
fn url(port: u16) -> String {
    format!("http://localhost:{port}/mcp")
}

/// Creates an empty folder for a run.
fn results_dir(layout: &Layout, name: &str) -> anyhow::Result<PathBuf> {
    let dir = layout.backends().join("conformance").join(name);
    clear_dir(&dir)?;
    Ok(dir)
}

struct SuiteRun<'a> {
    layout: &'a Layout,
    name: &'a str,
    started: Instant,
    log: PathBuf,
    /// The folder of its reports, empty at first.
    results: PathBuf,
}

impl<'a> SuiteRun<'a> {
    fn new(layout: &'a Layout, name: &'a str) -> anyhow::Result<Self> {
        Ok(Self {
            layout,
            name,
            started: Instant::now(),
            log: layout.fresh_log(&format!("conformance-{name}"))?,
            results: results_dir(layout, name)?,
        })
    }

    /// Runs a shell command line that finds the suite's `conformance` on its search path.
    fn succeeds(&self, version: &str, command: &str) -> anyhow::Result<bool> {
        if on_path("npx").is_none() {
            bail!(unavailable("npx is not installed"));
        }
        let Some(programs) = self.install(version)? else {
            return Ok(false);
        };
        let heartbeat = Heartbeat::start("suite", self.name);
        Program::new("sh")?
            .args(["-c", command])
            .envs([("PATH", path_with([programs])?)])
            .dir(&self.layout.root)
            .log_to(&self.log)?
            .succeeds(&self.layout.shutdown, Some(heartbeat))
    }

    /// Installs this version, once in a process: npx may write its folder again each time, while others read it. Returns
    /// the folder of its programs, `None` if npx failed.
    fn install(&self, version: &str) -> anyhow::Result<Option<PathBuf>> {
        static INSTALLED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(programs) = installed.get(version) {
            return Ok(Some(programs.clone()));
        }
        let package = format!("@modelcontextprotocol/conformance@{version}");
        let place = self
            .layout
            .backends()
            .join(format!("conformance-{version}"));
        let command = format!("command -v conformance > '{}'", place.display());
        let heartbeat = Heartbeat::start("suite", self.name);
        let is_installed = Program::new("npx")?
            .args(["-y", "-p", NODE, "-p", &package, "-c", &command])
            .envs([("npm_config_cache", self.layout.backends().join("npm"))])
            .envs(REGISTRY_SETTINGS)
            .dir(&self.layout.root)
            .log_to(&self.log)?
            .succeeds(&self.layout.shutdown, Some(heartbeat))?;
        if !is_installed {
            return Ok(None);
        }
        let program = PathBuf::from(fs::read_to_string(&place)?.trim());
        let programs = program.parent().context("conformance is in no folder")?;
        installed.insert(version.to_owned(), programs.to_owned());
        Ok(Some(programs.to_owned()))
    }

    fn print(&self, counts: TestCounts, failures: Vec<String>) {
        counts.print(self.layout, self.name, self.started, failures, &self.log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_command_and_every_revision_a_folder() {
        let line = scenario_commands("http://localhost:1/mcp", Path::new("out"));
        let commands: Vec<_> = line.split_terminator("; ").collect();
        assert_eq!(commands.len(), 10);
        assert_eq!(
            commands[1],
            "conformance server --url http://localhost:1/mcp --scenario ping --spec-version 2025-11-25 -o 'out/2025-11-25'"
        );
        let last = "server-stateless --spec-version 2026-07-28 -o 'out/2026-07-28'";
        assert!(commands[9].ends_with(last));
    }
}
