//! `cargo xtask clients`: real clients of others against our fixture server, over both transports,
//! in every era that they speak. What they check is in `tests/clients`, and so are the servers of
//! others that the gateway is tested with.

mod sdk;

use std::ffi::OsStr;
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;

use crate::cargo;
use crate::console::{Heartbeat, line};
use crate::fixture::{self, FIXTURE};
use crate::layout::Layout;
use crate::parallel;
use crate::process::Program;
use crate::services::Environment;
use crate::tally::Tally;

use sdk::{SDKS, Sdk};

/// Builds the fixture server and lets all clients at it.
pub(crate) fn chore(layout: &Layout) -> anyhow::Result<ExitCode> {
    let build = format!("build --package tests --bin {FIXTURE}");
    if !cargo::run(layout, &build, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let tally = run(layout)?;
    line(tally);
    Ok(cargo::exit_code(tally.failed == 0))
}

/// Lets all clients at the built fixture server, with a line for each client and each failed check.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<Tally> {
    let tallies = parallel::map(&SDKS, |sdk| run_sdk(layout, sdk));
    if layout.stop.requested() {
        bail!("stopped");
    }
    let mut sum = Tally::default();
    for (sdk, tally) in SDKS.iter().zip(tallies) {
        sum += Tally::from_result(sdk.name, tally);
    }
    Ok(sum)
}

/// The servers of others.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// What the tests have to know to start them.
    pub(crate) environment: Environment,
    /// The SDKs that could not be had, and why.
    pub(crate) missing: Vec<(&'static str, String)>,
}

/// Installs the SDKs, and says where their servers are.
pub(crate) fn servers(layout: &Layout) -> Servers {
    let mut servers = Servers::default();
    let installed = parallel::map(&SDKS, |sdk| sdk.install(layout));
    for (sdk, installed) in SDKS.iter().zip(installed) {
        let found = sdk.servers(layout);
        match installed {
            Ok(()) => servers.environment.extend(found),
            Err(_) if found.is_empty() => {}
            Err(why) => servers.missing.push((sdk.name, format!("{why:#}"))),
        }
    }
    servers
}

fn run_sdk(layout: &Layout, sdk: &Sdk) -> anyhow::Result<Tally> {
    sdk.install(layout)?;
    let mut sum = Tally::default();
    for (client, file) in sdk.clients {
        let (program, script) = sdk.command(layout, file);
        sum += run_client(layout, client, &program, script.as_deref())?;
    }
    Ok(sum)
}

/// Lets one client at a server of its own, so that what the server counts is about this client.
fn run_client(
    layout: &Layout,
    name: &'static str,
    program: &OsStr,
    script: Option<&OsStr>,
) -> anyhow::Result<Tally> {
    let started = Instant::now();
    let server = fixture::start(layout, FIXTURE, &format!("clients-{name}-server"), &[])?;
    let log = layout.fresh_log(&format!("clients-{name}"))?;
    let mut beat = Heartbeat::start("clients", name);
    let status = fixture::unconfigured(Program::new(program)?)
        .args(script)
        .args([format!("http://127.0.0.1:{}/mcp", server.port)])
        .args([fixture::binary(layout)])
        .log_to(&log)?
        .spawn()?
        .wait(&layout.stop, || beat.beat())?;
    drop(server);
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let tally = tally(&output, status.success());
    let (verdict, seconds) = (tally.verdict(), started.elapsed().as_secs_f32());
    line(format_args!(
        "{verdict:<8} {name}: {tally} ({seconds:.1} s)"
    ));
    if tally.failed > 0 {
        let failures = output.lines().filter(|line| line.starts_with("FAILED "));
        failures.for_each(|failure| line(format_args!("         {failure}")));
        line(format_args!("         all of it: {}", layout.shown(&log)));
    }
    Ok(tally)
}

/// Counts the lines `ok …` and `FAILED …`; one that checked nothing or broke off has failed.
fn tally(output: &str, has_succeeded: bool) -> Tally {
    let beginning_with = |word| output.lines().filter(|line| line.starts_with(word)).count() as u64;
    Tally::new(beginning_with("ok "), beginning_with("FAILED "), 0).or_failed(has_succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_by_their_lines() {
        let output =
            "ok rmcp http legacy call\nFAILED rmcp http legacy error: 1 instead of 2\nnoise\n";
        assert_eq!(tally(output, true).to_string(), "1 passed, 1 failed");
        assert_eq!(tally("ok rmcp http legacy call\n", false).failed, 1);
    }
}
