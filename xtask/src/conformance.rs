//! `cargo xtask conformance`: the official suite of the protocol against our fixture server, and what
//! it can ask of any server against those of the services.

mod products;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::bail;

use crate::chores;
use crate::console::{Heartbeat, line};
use crate::fixture;
use crate::gateway;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::{Process, Program};
use crate::registry;
use crate::tally::Tally;

use report::Report;

/// The suite is written for a newer Node.js than many machines have; npm has that as a package.
const NODE: &str = "node@22";

/// The version of `@modelcontextprotocol/conformance` that knows all revisions.
const NEWEST: &str = "0.2.0-alpha.12";

/// One run of the suite.
struct Set {
    name: &'static str,
    version: &'static str,
    selection: &'static str,
}

const SETS: [Set; 3] = [
    Set {
        name: "2025-11-25",
        version: NEWEST,
        selection: "--requirements 2025-11-25",
    },
    Set {
        name: "2026-07-28",
        version: NEWEST,
        selection: "--requirements 2026-07-28",
    },
    Set {
        name: "0.1.16",
        version: "0.1.16",
        selection: "--suite all",
    },
];

/// The same through the gateway, which passes on all that the fixture server offers.
const THROUGH_GATEWAY: [Set; 2] = [
    Set {
        name: "gateway-2025-11-25",
        ..SETS[0]
    },
    Set {
        name: "gateway-2026-07-28",
        ..SETS[1]
    },
];

/// What came of the suite.
pub(crate) enum Outcome {
    /// It ran.
    Ran(Tally),
    /// It could not be had, and why.
    Skipped(String),
}

/// Builds the servers and runs all sets.
pub(crate) fn chore(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !chores::cargo(layout, &["build", "--workspace", "--bins"], &[])? {
        return Ok(ExitCode::FAILURE);
    }
    Ok(match run(layout)? {
        Outcome::Ran(tally) => {
            line(tally);
            if tally.failed == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Outcome::Skipped(why) => {
            line(format_args!("skipped  conformance: {why}"));
            line(Tally::default());
            ExitCode::SUCCESS
        }
    })
}

/// Runs all sets against the built fixture server, then the product servers, with one line for each.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<Outcome> {
    if on_path("npx").is_none() {
        return Ok(Outcome::Skipped("npx is not installed".to_owned()));
    }
    let (server, port) = fixture::start(layout, "conformance-server")?;
    // The suite wants a server that is called by the name `localhost`.
    let url = format!("http://localhost:{port}/mcp");
    let mut sum = Tally::default();
    for set in &SETS {
        match set.run(layout, &url)? {
            Outcome::Ran(tally) => sum += tally,
            skipped @ Outcome::Skipped(_) => return Ok(skipped),
        }
    }
    let (gateway, port) = start_gateway(layout, port)?;
    let url = format!("http://localhost:{port}/mcp");
    for set in &THROUGH_GATEWAY {
        match set.run(layout, &url)? {
            Outcome::Ran(tally) => sum += tally,
            skipped @ Outcome::Skipped(_) => return Ok(skipped),
        }
    }
    drop(gateway);
    drop(server);
    sum += products::run(layout)?;
    Ok(Outcome::Ran(sum))
}

/// The gateway in front of the server on `backend`, whose tools keep their names.
fn start_gateway(layout: &Layout, backend: u16) -> anyhow::Result<(Process, u16)> {
    let dir = results(layout, "gateway")?;
    let file = dir.join("gateway.toml");
    let config =
        format!("[backends.fixture]\nurl = \"http://127.0.0.1:{backend}/mcp\"\nbare = true\n");
    fs::write(&file, config)?;
    let file = file.to_string_lossy();
    let env = [
        ("MCP_GATEWAY_CONFIG", &*file),
        ("MCP_GATEWAY_EVENTS", "memory"),
    ];
    fixture::start_server(layout, gateway::SERVER, "conformance-gateway", &env)
}

impl Set {
    fn run(&self, layout: &Layout, url: &str) -> anyhow::Result<Outcome> {
        let log = layout.fresh_log(&format!("conformance-{}", self.name))?;
        let results = results(layout, self.name)?;
        let command = format!(
            "conformance server --url {url} {} -o '{}'",
            self.selection,
            results.display()
        );
        let status = suite(layout, self.name, self.version, &command, &log)?;
        let report = Report::read(&results)?;
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if report.is_empty() && registry::was_out_of_reach(&output) {
            let why = "no network, npm could not reach its registry";
            return Ok(Outcome::Skipped(why.to_owned()));
        }
        let tally = report.tally(status.success());
        announce(layout, self.name, tally, report.failures(), &log);
        Ok(Outcome::Ran(tally))
    }
}

/// Runs a command line of a shell that has the suite's `conformance` on its search path.
fn suite(
    layout: &Layout,
    name: &'static str,
    version: &str,
    command: &str,
    log: &Path,
) -> anyhow::Result<ExitStatus> {
    let package = format!("@modelcontextprotocol/conformance@{version}");
    let mut beat = Heartbeat::start("suite", name);
    let status = Program::guarded("npx", Duration::from_secs(5), None)?
        .args(["-y", "-p", NODE, "-p", &package, "-c", command])
        .envs([
            (
                "npm_config_cache",
                layout.backends().join("npm").as_os_str(),
            ),
            // Without a network this gives up in seconds, not in minutes.
            ("npm_config_fetch_retry_mintimeout", "1000".as_ref()),
            ("npm_config_fetch_retry_maxtimeout", "5000".as_ref()),
        ])
        .dir(&layout.root)
        .log_to(log)?
        .spawn()?
        .wait(&layout.stop, || beat.beat())?;
    if layout.stop.requested() {
        bail!("stopped");
    }
    Ok(status)
}

/// The line about a run, and those about what was wrong with it.
fn announce(
    layout: &Layout,
    name: &str,
    tally: Tally,
    failures: impl Iterator<Item = String>,
    log: &Path,
) {
    let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
    line(format_args!("{verdict:<8} {name}: {tally}"));
    failures.for_each(line);
    if tally.failed > 0 {
        line(format_args!("         all of it: {}", layout.shown(log)));
    }
}

/// An empty folder for what the suite writes down.
fn results(layout: &Layout, name: &str) -> anyhow::Result<PathBuf> {
    let dir: &Path = &layout.backends().join("conformance").join(name);
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    create_dir(dir)?;
    Ok(dir.to_owned())
}
