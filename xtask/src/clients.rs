//! `cargo xtask clients`: runs real clients of others against our fixture server, over both transports,
//! in every era that they support. Their checks are in `tests/clients`, and so are the servers of
//! others that the gateway is tested with.

mod sdk;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use crate::cargo;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::layout::Layout;
use crate::parallel;
use crate::process::Program;
use crate::services::Environment;
use crate::test_server::{self, FIXTURE};

use sdk::{SDKS, Sdk};

pub(crate) fn command(layout: &Layout) -> anyhow::Result<ExitCode> {
    let build = format!("build --package tests --bin {FIXTURE}");
    if !cargo::run(layout, &build, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let counts = run(layout)?;
    print_line!("{counts}");
    Ok(cargo::exit_code(counts.failed == 0))
}

/// Runs all clients against the built fixture server, with a line for each client and each failure.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<TestCounts> {
    TestCounts::run_each(layout, &SDKS, |sdk| sdk.name, |sdk| run_sdk(layout, sdk))
}

#[derive(Debug, Default)]
pub(crate) struct OtherServers {
    /// The variables with which the tests find them.
    pub(crate) environment: Environment,
    /// The missing SDKs, with the reasons.
    pub(crate) missing: Vec<(&'static str, String)>,
}

/// Installs the SDKs and finds their servers.
pub(crate) fn install_servers(layout: &Layout) -> OtherServers {
    let mut servers = OtherServers::default();
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

fn run_sdk(layout: &Layout, sdk: &Sdk) -> anyhow::Result<TestCounts> {
    sdk.install(layout)?;
    let mut sum = TestCounts::default();
    for (client, file) in sdk.clients {
        let (program, script) = sdk.command(layout, file);
        sum += run_client(layout, client, Program::new(program)?.args(script))?;
    }
    Ok(sum)
}

/// Runs one client with its own server, which counts the client's calls.
fn run_client(layout: &Layout, name: &'static str, client: Program) -> anyhow::Result<TestCounts> {
    let started = Instant::now();
    let server = test_server::start(layout, FIXTURE, &format!("clients-{name}-server"), &[])?;
    let log = layout.fresh_log(&format!("clients-{name}"))?;
    let has_succeeded = test_server::unconfigured(client)
        .args([format!("http://127.0.0.1:{}/mcp", server.port)])
        .args([test_server::binary(layout)])
        .log_to(&log)?
        .succeeds(&layout.shutdown, Some(Heartbeat::start("clients", name)))?;
    drop(server);
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let counts = counts(&output, has_succeeded);
    let failures = output.lines().filter(|line| line.starts_with("FAILED "));
    counts.print(layout, name, started, failures.map(str::to_owned), &log);
    Ok(counts)
}

/// Counts the lines `ok …` and `FAILED …`.
fn counts(output: &str, has_succeeded: bool) -> TestCounts {
    let with = |prefix| {
        output
            .lines()
            .filter(|line| line.starts_with(prefix))
            .count() as u64
    };
    TestCounts::new(with("ok "), with("FAILED "), 0).or_failed(has_succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_by_their_lines() {
        let output =
            "ok rmcp http legacy call\nFAILED rmcp http legacy error: 1 instead of 2\nnoise\n";
        assert_eq!(counts(output, true).to_string(), "1 passed, 1 failed");
        assert_eq!(counts("ok rmcp http legacy call\n", false).failed, 1);
    }
}
