//! `cargo xtask clients`: runs real clients of others against our fixture server, alone and behind the
//! gateway, over both transports, in every era that they support. Their checks are in `tests/clients`,
//! and so are the servers of others that the gateway is tested with.

mod sdk;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;

use crate::cargo;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::instance::clear_dir;
use crate::layout::Layout;
use crate::parallel;
use crate::process::Program;
use crate::servers::Gateway;
use crate::services::Environment;
use crate::test_server::{self, FIXTURE, NO_SERVICES};

use sdk::{SDKS, Sdk, Target};

/// The clients that are official SDKs themselves, and no frameworks around them.
const OFFICIAL: [&str; 3] = ["typescript-1", "typescript-2", "python-mcp"];

/// Makes a server speak HTTP+SSE, too.
const SSE: (&str, &str) = ("MCP_SSE", "1");

pub(crate) fn command(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let counts = run(layout)?;
    print_line!("{counts}");
    Ok(cargo::exit_code(counts.failed == 0))
}

/// Runs all clients against the built fixture server, with a line for each client and each failure.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<TestCounts> {
    // First, since one client uses another's packages; the run of an SDK that fails here tells why.
    parallel::map(&SDKS, |sdk| sdk.install(layout));
    TestCounts::run_each(layout, &SDKS, |sdk| sdk.name, |sdk| run_sdk(layout, sdk))
}

/// Runs the clients of the official SDK `name` against a server on a port, over streamable HTTP.
pub(crate) fn run_at(layout: &Layout, name: &str, port: u16) -> anyhow::Result<TestCounts> {
    let sdk = SDKS.iter().find(|sdk| sdk.name == name);
    let sdk = sdk.context("no such SDK")?;
    sdk.install(layout)?;
    let mut sum = TestCounts::default();
    let clients = sdk.clients.iter();
    for (client, file, _) in clients.filter(|(client, ..)| OFFICIAL.contains(client)) {
        let (program, script) = sdk.command(layout, file);
        let program = Program::new(program)?.args(script);
        let log = layout.fresh_log(&format!("replicas-{client}"))?;
        // Other transports fail: no program is named, and no server speaks HTTP+SSE.
        test_server::unconfigured(program)
            .args([&*format!("http://127.0.0.1:{port}/mcp"), "false"])
            .log_to(&log)?
            .succeeds(&layout.shutdown, Some(Heartbeat::start("clients", *client)))?;
        let output = fs::read(&log)?;
        let output = String::from_utf8_lossy(&output);
        let http = output.lines().filter(|line| line.contains(" http "));
        sum += counts(
            &http.map(|line| format!("{line}\n")).collect::<String>(),
            true,
        );
    }
    Ok(sum)
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
    for (client, file, targets) in sdk.clients {
        for target in *targets {
            let (program, script) = sdk.command(layout, file);
            sum += run_client(layout, client, *target, Program::new(program)?.args(script))?;
        }
    }
    Ok(sum)
}

/// Runs one client with its own server, which counts the client's calls.
fn run_client(
    layout: &Layout,
    client: &'static str,
    target: Target,
    program: Program,
) -> anyhow::Result<TestCounts> {
    let started = Instant::now();
    let gateway = GatewayFiles::write(layout, client)?;
    let (server, command, env) = match target {
        Target::Fixture => (FIXTURE, test_server::binary(layout), vec![SSE]),
        Target::Gateway => (
            Gateway::PROGRAM,
            gateway.script.clone(),
            gateway.environment(),
        ),
        Target::Server(name) => (name, layout.binaries(false).join(name), NO_SERVICES.into()),
    };
    let name = format!("{client}-with-{server}");
    let server = test_server::start(layout, server, &format!("clients-{name}-server"), &env)?;
    let log = layout.fresh_log(&format!("clients-{name}"))?;
    let has_succeeded = test_server::unconfigured(program)
        .args([format!("http://127.0.0.1:{}/mcp", server.port)])
        .args([command])
        .envs(env)
        .log_to(&log)?
        .succeeds(&layout.shutdown, Some(Heartbeat::start("clients", client)))?;
    drop(server);
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let counts = counts(&output, has_succeeded);
    let failures = output.lines().filter(|line| line.starts_with("FAILED "));
    counts.print(layout, &name, started, failures.map(str::to_owned), &log);
    Ok(counts)
}

/// The files of a gateway in front of the fixture, whose tools keep their names.
struct GatewayFiles {
    config: String,
    /// Starts it over stdio: clients pass on no variables.
    script: PathBuf,
}

impl GatewayFiles {
    fn write(layout: &Layout, client: &str) -> anyhow::Result<Self> {
        let dir = layout.backends().join("clients-gateway").join(client);
        clear_dir(&dir)?;
        let (config, script) = (dir.join("gateway.toml"), dir.join("gateway.sh"));
        let child = test_server::binary(layout);
        let backend = format!("command = [{child:?}, \"--stdio\"]\nbare = true\n");
        fs::write(&config, format!("[backends.fixture]\n{backend}"))?;
        let gateway = layout.binaries(false).join(Gateway::PROGRAM);
        let exec = format!("exec {gateway:?} --config {config:?} --events memory \"$@\"");
        fs::write(&script, format!("#!/bin/sh\n{exec}\n"))?;
        fs::set_permissions(&script, Permissions::from_mode(0o700))?;
        let config = config.to_string_lossy().into_owned();
        Ok(Self { config, script })
    }

    fn environment(&self) -> Vec<(&'static str, &str)> {
        let config = ("MCP_GATEWAY_CONFIG", &*self.config);
        vec![config, ("MCP_GATEWAY_EVENTS", "memory"), SSE]
    }
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
