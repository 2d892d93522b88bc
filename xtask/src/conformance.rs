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

/// One run of the suite.
struct Set {
    name: &'static str,
    version: &'static str,
    selection: &'static str,
}

/// Runs the suite directly against the fixture server.
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
    for set in &SETS {
        sum += set.run(layout, server.port)?;
    }
    let gateway = start_gateway(layout, server.port)?;
    for set in &THROUGH_GATEWAY {
        sum += set.run(layout, gateway.port)?;
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

impl Set {
    fn run(&self, layout: &Layout, port: u16) -> anyhow::Result<Tally> {
        let Self {
            name,
            version,
            selection,
        } = self;
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
}
