//! `cargo xtask nightly conformance`: runs the official suite of the protocol against our fixture server, alone and behind
//! the gateway, and with our client, alone and behind the gateway, against the suite's servers. The servers of the services
//! speak the protocol by the same code as the fixture.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::checks;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::install::Package;
use crate::instance::clear_dir;
use crate::layout::{self, on_path, path_with};
use crate::process::Program;
use crate::servers::Gateway;
use crate::test_server::{self, FIXTURE};

/// The suite needs a newer Node.js than many machines have; npm has that as a package.
const NODE: &str = "node@22";

/// The version of `@modelcontextprotocol/conformance` that knows all revisions.
const NEWEST: &str = "0.2.0-alpha.12";

/// A run against a server: a name, a version of the suite, a selection, and the number of checks that must pass at least,
/// alone and behind the gateway, since the suite leaves out what it does not find. The gateway answers the call of the
/// scenario about polling without a stream, which has three checks.
type Run = (&'static str, &'static str, &'static str, [u64; 2]);

/// Runs of the newest suite, and of the older one.
const RUNS: [Run; 3] = [
    ("2025-11-25", NEWEST, "--requirements 2025-11-25", [83, 80]),
    (
        "2026-07-28",
        NEWEST,
        "--requirements 2026-07-28",
        [196, 196],
    ),
    ("0.1.16", "0.1.16", "--suite all", [46, 43]),
];

/// A scenario in which the server of the suite asks on its GET stream.
const CLIENT_SCENARIO: &str = "elicitation-sep1034-client-defaults";

/// The client of all scenarios, an example of `mcp-client`.
const CLIENT: &str = "examples/conformance";

/// Scenarios of logins of the set `auth`, which must run in both revisions.
const LOGINS_OF_ALL: [&str; 3] = ["metadata-default", "pre-registration", "scope-step-up"];

/// Scenarios of logins that are not in that set.
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

/// The warnings about the gateway, which tells its clients of a changed list only if the list has changed. The suite makes
/// the fixture announce changes of lists that stay the same.
const GATEWAY_WARNINGS: [&str; 2] = [
    "sep-2575-server-sends-tools-list-changed-on-subscription",
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
];

/// Logs in to the issuers of the suite, in both revisions and in the scenarios that are named.
const LOGINS: &str = r#"
    for revision in 2025-11-25 2026-07-28; do
        conformance client --command "$0" --suite auth --spec-version $revision -o "$RESULTS/$revision"
    done
    for scenario in "$@"; do
        version="--spec-version 2026-07-28"
        # Of an extension, which has no version.
        [ "$scenario" != client-credentials-basic ] || version=
        conformance client --command "$0" --scenario auth/$scenario $version -o "$RESULTS/2026-07-28"
    done
    true
"#;

/// The newest suite, in both of its revisions, against the fixture server.
pub(crate) fn run_newest() -> Result<TestCounts> {
    if let Err(why) = install(NEWEST) {
        return Ok(TestCounts::skip("conformance", &why));
    }
    let server = test_server::start(FIXTURE, "conformance-server", &[])?;
    run_suites(&RUNS[..2], "", server.port)
}

/// Runs suites on a server; `prefix` is that of their names, and names the gateway.
fn run_suites(runs: &[Run], prefix: &str, port: u16) -> Result<TestCounts> {
    let mut sum = TestCounts::default();
    for (name, version, selection, minimum) in runs {
        let mut run = SuiteRun::new(&format!("{prefix}{name}"), version);
        run.minimum = minimum[usize::from(!prefix.is_empty())];
        if !prefix.is_empty() && *name == "2026-07-28" {
            run.warnings = &GATEWAY_WARNINGS;
        }
        sum += run.run_on(selection, port)?;
    }
    Ok(sum)
}

/// Runs all suites against all of the built servers, with one line for each run.
pub(crate) fn run() -> Result<()> {
    checks::build()?;
    let server = test_server::start(FIXTURE, "conformance-server", &[])?;
    let mut sum = run_suites(&RUNS, "", server.port)?;
    // The gateway relays everything that the fixture server offers, whose tools keep their names.
    let url = url(server.port);
    let config = format!("[backends.fixture]\nurl = \"{url}\"\nbare = true\n");
    let gateway = test_server::start_gateway("conformance-gateway", &config, "memory")?;
    sum += run_suites(&RUNS, "gateway-", gateway.port)?;
    drop((gateway, server));
    sum += run_client_scenario()?;
    sum += run_login_scenarios()?;
    sum.print_sum()
}

/// Runs a client behind the gateway, whose backend is the server of the suite.
fn run_client_scenario() -> Result<TestCounts> {
    let mut run = SuiteRun::new("gateway-client", NEWEST);
    run.scenarios = vec![CLIENT_SCENARIO.to_owned()];
    let binaries = layout::binaries(false);
    let [client, gateway] = [CLIENT, Gateway::PROGRAM].map(|name| binaries.join(name));
    let (client, gateway) = (client.display(), gateway.display());
    // The suite appends the URL of its server to the command, and runs it in a shell.
    let script = layout::backends().join("conformance/client.sh");
    let call = format!("'{client}' '{gateway}' --stdio --events memory --backend \"suite=$1\"");
    fs::write(&script, format!("exec {call}\n"))?;
    let client = format!("conformance client --command \"sh '{}'\"", script.display());
    let command = format!("{client} --scenario {CLIENT_SCENARIO} -o \"$RESULTS\"");
    run.run(&[&command])
}

fn run_login_scenarios() -> Result<TestCounts> {
    let mut run = SuiteRun::new("client-auth", NEWEST);
    let old = LOGINS_OF_ALL.map(|name| format!("2025-11-25/auth/{name}"));
    let new = LOGINS_OF_ALL.iter().chain(&LOGIN_SCENARIOS);
    let new = new.map(|name| format!("2026-07-28/auth/{name}"));
    run.scenarios = old.into_iter().chain(new).collect();
    let client = layout::binaries(false).join(CLIENT);
    let words = [LOGINS, &*client.to_string_lossy()];
    run.run(&[&words[..], &LOGIN_SCENARIOS].concat())
}

/// Returns the address of a server; the suite accepts only the name `localhost`.
fn url(port: u16) -> String {
    format!("http://localhost:{port}/mcp")
}

struct SuiteRun {
    name: String,
    version: &'static str,
    /// Scenarios that must run, because the suite skips unknown scenarios and scenarios of other revisions.
    scenarios: Vec<String>,
    /// Warnings that must come; each counts as skipped.
    warnings: &'static [&'static str],
    /// The number of checks that pass or warn as they must.
    minimum: u64,
}

/// A check in a report of the suite: its scenario, its id, its status and its message.
type Check = [String; 4];

impl SuiteRun {
    fn new(name: &str, version: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            version,
            scenarios: Vec::new(),
            warnings: &[],
            minimum: 1,
        }
    }

    fn run_on(&self, selection: &str, port: u16) -> Result<TestCounts> {
        let url = url(port);
        let command = format!("conformance server --url {url} {selection} -o \"$RESULTS\"");
        self.run(&[&command])
    }

    /// Runs a script of `sh` with its arguments, which calls `conformance` and makes the reports in `$RESULTS`.
    fn run(&self, script: &[&str]) -> Result<TestCounts> {
        let started = Instant::now();
        let name = &*self.name;
        let results = layout::backends().join("conformance").join(name);
        clear_dir(&results)?;
        let sh = Program::new("sh")
            .args(["-c"])
            .args(script)
            .envs([("PATH", path_with([install(self.version)?])?)])
            .envs([("RESULTS", &results)])
            .dir(layout::root());
        let heartbeat = Heartbeat::start("suite", name);
        let run = sh.logged(&format!("conformance-{name}"), Some(heartbeat))?;
        let mut checks = Vec::new();
        read(&results, &results, &mut checks)?;
        let (counts, failures) = self.judge(&checks);
        let counts = counts.or_failed(run.has_succeeded);
        let failures = failures.iter().map(String::as_str);
        counts.print(name, started, failures, &run.log);
        Ok(counts)
    }

    /// Counts all checks, required or not. A warning counts as a failure.
    fn judge(&self, checks: &[Check]) -> (TestCounts, Vec<String>) {
        let mut counts = TestCounts::default();
        let mut failures = Vec::new();
        for [scenario, id, status, message] in checks {
            let (kind, message) = (status.to_lowercase(), message.trim());
            match status.as_str() {
                "SUCCESS" => counts.passed += 1,
                "SKIPPED" => counts.skipped += 1,
                "WARNING" if self.warnings.contains(&id.as_str()) => counts.skipped += 1,
                "FAILURE" | "WARNING" => {
                    failures.push(format!("{kind}: {scenario}, {id}: {message}"));
                }
                _ => {}
            }
        }
        for wanted in &self.scenarios {
            if !checks.iter().any(|[scenario, ..]| scenario == wanted) {
                failures.push(format!("failure: {wanted}: it did not run"));
            }
        }
        for wanted in self.warnings {
            let is_it = |[_, id, status, _]: &Check| id == wanted && status == "WARNING";
            if !checks.iter().any(is_it) {
                failures.push(format!("failure: {wanted}: it should warn"));
            }
        }
        let expected = counts.passed + self.warnings.len() as u64;
        if expected < self.minimum {
            let minimum = self.minimum;
            failures.push(format!("failure: {expected} checks passed of {minimum}"));
        }
        counts.failed = failures.len() as u64;
        (counts, failures)
    }
}

/// Reads the reports: a folder for each scenario, with a list of checks.
fn read(root: &Path, folder: &Path, checks: &mut Vec<Check>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, checks)?;
        } else if path.ends_with("checks.json") {
            let list: Value = serde_json::from_slice(&fs::read(&path)?)?;
            let folder = folder.strip_prefix(root)?.to_string_lossy();
            for check in list.as_array().into_iter().flatten() {
                let text = |member: &str| check[member].as_str().unwrap_or_default().to_owned();
                let scenario = scenario(&folder).to_owned();
                checks.push([scenario, text("id"), text("status"), text("errorMessage")]);
            }
        }
    }
    Ok(())
}

/// Returns the scenario in `server-ping-2026-11-21T08-33-29-062Z`.
fn scenario(folder: &str) -> &str {
    const TIME: usize = "-2026-11-21T08-33-29-062Z".len();
    let name = folder.strip_prefix("server-").unwrap_or(folder);
    let end = name.len().checked_sub(TIME);
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

fn install(version: &str) -> Result<PathBuf> {
    ensure!(on_path("npm").is_some(), "npm is not installed");
    let package = Package::new("suite", &format!("suite-{version}"));
    let names = format!("{NODE} @modelcontextprotocol/conformance@{version}");
    package.install(&names, |_| {
        let step = format!("installing the suite {version}");
        let words = format!("install --prefix . {names}");
        package.run(&step, "npm".as_ref(), &words)
    })?;
    Ok(package.dir.join("node_modules/.bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_and_failures_named() {
        let ping = scenario("server-ping-2026-11-21T08-33-29-062Z");
        let check = |id, status| [ping, id, status, "no answer\n"].map(str::to_owned);
        let mut run = SuiteRun::new("x", NEWEST);
        run.scenarios = ["ping", "tools-list"].map(str::to_owned).to_vec();
        run.warnings = &["silence", "gone"];
        run.minimum = 4;
        let (counts, failures) = run.judge(&[
            check("ping", "SUCCESS"),
            check("pong", "FAILURE"),
            check("note", "INFO"),
            check("silence", "WARNING"),
            check("odd", "WARNING"),
        ]);
        assert_eq!(counts, TestCounts::new(1, 5, 1));
        assert_eq!(
            failures,
            [
                "failure: ping, pong: no answer",
                "warning: ping, odd: no answer",
                "failure: tools-list: it did not run",
                "failure: gone: it should warn",
                "failure: 3 checks passed of 4",
            ]
        );
    }
}
