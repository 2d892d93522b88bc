//! `cargo xtask clients`: real clients of others against our fixture server, over both transports,
//! in every era that they speak. What they check is in `tests/clients`, and so are the servers of
//! others that the gateway is tested with.

mod kit;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

use crate::console::{Heartbeat, line};
use crate::fixture;
use crate::layout::Layout;
use crate::process::Program;
use crate::tally::Tally;

use kit::{KITS, Kit};

/// Builds the fixture server and lets all clients at it.
pub(crate) fn chore(layout: &Layout, ci: bool) -> anyhow::Result<ExitCode> {
    if !fixture::build(layout)? {
        return Ok(ExitCode::FAILURE);
    }
    let tally = run(layout, ci)?;
    line(tally);
    Ok(match tally.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Lets all clients at the built fixture server, with a line for each client and each failed check.
/// What cannot be had here is skipped, which is a failure in CI.
pub(crate) fn run(layout: &Layout, ci: bool) -> anyhow::Result<Tally> {
    let outcomes = thread::scope(|scope| {
        let kits = KITS
            .each_ref()
            .map(|kit| scope.spawn(|| run_kit(layout, kit)));
        kits.map(|kit| kit.join().unwrap_or_else(|_| Err(anyhow!("it broke off"))))
    });
    if layout.stop.requested() {
        bail!("stopped");
    }
    let mut sum = Tally::default();
    for (kit, outcome) in KITS.iter().zip(outcomes) {
        match outcome {
            Ok(Outcome::Ran(tally)) => sum += tally,
            Ok(Outcome::Skipped(why)) => {
                line(format_args!("skipped  {}: {why}", kit.name));
                *if ci {
                    &mut sum.failed
                } else {
                    &mut sum.skipped
                } += 1;
            }
            Err(error) => {
                line(format_args!("FAILED   {}: {error:#}", kit.name));
                sum.failed += 1;
            }
        }
    }
    Ok(sum)
}

/// The servers of others.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// What the tests have to know to start them.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// The kits that could not be had, and why.
    pub(crate) missing: Vec<(&'static str, String)>,
}

/// Installs the kits, and says where their servers are.
pub(crate) fn servers(layout: &Layout) -> Servers {
    let installed = thread::scope(|scope| {
        let kits = KITS
            .each_ref()
            .map(|kit| scope.spawn(|| kit.install(layout)));
        kits.map(|kit| kit.join().unwrap_or_else(|_| Err(anyhow!("it broke off"))))
    });
    let mut servers = Servers::default();
    for (kit, outcome) in KITS.iter().zip(installed) {
        let found = kit.servers(layout);
        match outcome {
            Ok(None) => servers.environment.extend(found),
            _ if found.is_empty() => {}
            Ok(Some(why)) => servers.missing.push((kit.name, why)),
            Err(error) => servers.missing.push((kit.name, format!("{error:#}"))),
        }
    }
    servers
}

enum Outcome {
    Ran(Tally),
    Skipped(String),
}

fn run_kit(layout: &Layout, kit: &Kit) -> anyhow::Result<Outcome> {
    if let Some(obstacle) = kit.install(layout)? {
        return Ok(Outcome::Skipped(obstacle));
    }
    let mut sum = Tally::default();
    for client in kit.clients {
        let (program, script) = kit.program(layout, client);
        sum += run_client(layout, client.name, program.as_ref(), script.as_deref())?;
    }
    Ok(Outcome::Ran(sum))
}

/// Lets one client at a server of its own, so that what the server counts is about this client.
fn run_client(
    layout: &Layout,
    name: &'static str,
    program: &OsStr,
    script: Option<&OsStr>,
) -> anyhow::Result<Tally> {
    let started = Instant::now();
    let (server, port) = fixture::start(layout, &format!("clients-{name}-server"))?;
    let log = layout.fresh_log(&format!("clients-{name}"))?;
    let mut beat = Heartbeat::start("clients", name);
    let status = fixture::unconfigured(Program::guarded(program, Duration::from_secs(5), None)?)
        .args(script)
        .args([format!("http://127.0.0.1:{port}/mcp")])
        .args([fixture::binary(layout)])
        .log_to(&log)?
        .spawn()?
        .wait(&layout.stop, || beat.beat())?;
    drop(server);
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let tally = tally(&output, status.success());
    let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
    let seconds = started.elapsed().as_secs_f32();
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
fn tally(output: &str, succeeded: bool) -> Tally {
    let beginning_with = |word| output.lines().filter(|line| line.starts_with(word)).count() as u64;
    let mut tally = Tally {
        passed: beginning_with("ok "),
        failed: beginning_with("FAILED "),
        skipped: 0,
    };
    if tally.failed == 0 && (!succeeded || tally.passed == 0) {
        tally.failed = 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_by_their_lines() {
        let output =
            "ok rmcp http legacy call\nFAILED rmcp http legacy error: 1 instead of 2\nnoise\n";
        assert_eq!(tally(output, true).to_string(), "1 passed, 1 failed");
    }

    #[test]
    fn a_client_that_breaks_off_has_failed() {
        assert_eq!(tally("ok rmcp http legacy call\n", false).failed, 1);
        assert_eq!(tally("", true).failed, 1);
    }
}
