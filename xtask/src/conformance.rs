//! `cargo xtask conformance`: the official suite of the protocol against our fixture server, and what
//! it can ask of any server against those of the services.

mod products;
mod report;
mod suite;

use std::fs;
use std::process::ExitCode;

use crate::cargo;
use crate::console::line;
use crate::fixture::{self, FIXTURE, Listening};
use crate::gateway;
use crate::layout::Layout;
use crate::tally::Tally;

use suite::{NEWEST, Run};

/// The runs of the suite: a name, a version of it, and what is run.
const SETS: [(&str, &str, &str); 3] = [
    ("2025-11-25", NEWEST, "--requirements 2025-11-25"),
    ("2026-07-28", NEWEST, "--requirements 2026-07-28"),
    ("0.1.16", "0.1.16", "--suite all"),
];

/// Builds the servers and runs all sets.
pub(crate) fn chore(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let tally = Tally::from_result("conformance", run(layout));
    line(tally);
    Ok(cargo::exit_code(tally.failed == 0))
}

/// Runs all sets against the built fixture server, then the product servers, with one line for each.
///
/// # Errors
/// [`crate::install::Unavailable`] among them, where the suite cannot be had.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<Tally> {
    let server = fixture::start(layout, FIXTURE, "conformance-server", &[])?;
    let mut sum = Tally::default();
    for (name, version, selection) in SETS {
        sum += run_set(layout, name, version, selection, server.port)?;
    }
    // The gateway passes on all that the fixture server offers.
    let gateway = start_gateway(layout, server.port)?;
    for (name, version, selection) in SETS.into_iter().filter(|set| set.1 == NEWEST) {
        let name = format!("gateway-{name}");
        sum += run_set(layout, &name, version, selection, gateway.port)?;
    }
    drop((gateway, server));
    sum += products::run(layout)?;
    Ok(sum)
}

/// Starts the gateway in front of the server on `backend`, whose tools keep their names.
fn start_gateway(layout: &Layout, backend: u16) -> anyhow::Result<Listening> {
    let file = suite::results(layout, "gateway")?.join("gateway.toml");
    let url = suite::url(backend);
    fs::write(
        &file,
        format!("[backends.fixture]\nurl = \"{url}\"\nbare = true\n"),
    )?;
    let file = file.to_string_lossy();
    let env = [
        ("MCP_GATEWAY_CONFIG", &*file),
        ("MCP_GATEWAY_EVENTS", "memory"),
    ];
    fixture::start(layout, gateway::PROGRAM, "conformance-gateway", &env)
}

fn run_set(
    layout: &Layout,
    name: &str,
    version: &str,
    selection: &str,
    port: u16,
) -> anyhow::Result<Tally> {
    let run = Run::new(layout, name)?;
    let (url, results) = (suite::url(port), run.results.display());
    let command = format!("conformance server --url {url} {selection} -o '{results}'");
    let has_succeeded = run.perform(layout, version, &command)?;
    let report = report::Report::read(&run.results)?;
    run.check_online(!report.is_empty())?;
    let tally = report.tally().or_failed(has_succeeded);
    run.announce(layout, tally, report.failures());
    Ok(tally)
}
