//! The part `clients` of `cargo xtask nightly`: runs real clients of others against our fixture server, alone and behind the
//! gateway, over both transports, in every era that they support. Their checks are in `tests/clients`,
//! and so are the servers of others that the gateway is tested with.

mod sdk;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::instance::clear_dir;
use crate::process::{Program, in_parallel};
use crate::servers::{self, Gateway, PROGRAMS};
use crate::services::Environment;
use crate::test_server::{self, FIXTURE, NO_SERVICES};
use crate::{checks, layout, shutdown};

use sdk::{SDKS, Sdk};

/// The clients that are official SDKs themselves, and no frameworks around them.
const OFFICIAL: [&str; 3] = ["typescript-1", "typescript-2", "python-mcp"];

/// Makes a server speak HTTP+SSE, too.
const SSE: (&str, &str) = ("MCP_SSE", "1");

/// Runs all clients against the built fixture server, with a line for each client and each failure.
pub(crate) fn run() -> Result<()> {
    checks::build()?;
    // First, since one client uses another's packages; the run of an SDK that fails here tells why.
    in_parallel(&SDKS, |sdk| sdk.install());
    let results = in_parallel(&SDKS, run_sdk);
    ensure!(!shutdown::requested(), "stopped");
    let results = SDKS.iter().zip(results);
    let counts = results.map(|(sdk, result)| TestCounts::from_result(sdk.name, result));
    counts.sum::<TestCounts>().print_sum()
}

/// Runs the clients of the official SDK `name` against a server on a port, over streamable HTTP.
pub(crate) fn run_at(name: &str, port: u16) -> Result<TestCounts> {
    let sdk = SDKS.iter().find(|sdk| sdk.name == name);
    let sdk = sdk.context("no such SDK")?;
    sdk.install()?;
    let mut sum = TestCounts::default();
    let clients = sdk.clients.iter();
    for (client, file, _) in clients.filter(|(client, ..)| OFFICIAL.contains(client)) {
        // Other transports fail: no program is named, and no server speaks HTTP+SSE.
        let program = test_server::unconfigured(sdk.program(file));
        let program = program.args([&*servers::url(port), "false"]);
        let heartbeat = Heartbeat::start("clients", *client);
        let run = program.logged(&format!("replicas-{client}"), Some(heartbeat))?;
        let http = run.output.lines().filter(|line| line.contains(" http "));
        sum += counts(http, true);
    }
    Ok(sum)
}

/// Installs the SDKs; returns the variables with which the tests find their servers, and the counts of missing ones.
pub(crate) fn install_servers() -> (Environment, TestCounts) {
    let (mut environment, mut missing) = (Environment::new(), TestCounts::default());
    let installed = in_parallel(&SDKS, |sdk| sdk.install());
    for (sdk, installed) in SDKS.iter().zip(installed) {
        let found = sdk.servers();
        match installed {
            Ok(()) => environment.extend(found),
            Err(_) if found.is_empty() => {}
            Err(why) => missing += TestCounts::skip(sdk.name, &why),
        }
    }
    (environment, missing)
}

fn run_sdk(sdk: &Sdk) -> Result<TestCounts> {
    if let Err(why) = sdk.install() {
        return Ok(TestCounts::skip(sdk.name, &why));
    }
    let mut sum = TestCounts::default();
    for (client, file, targets) in sdk.clients {
        let with_servers = [FIXTURE].into_iter().chain(PROGRAMS.iter().copied());
        for server in with_servers.take(*targets) {
            sum += run_client(client, server, sdk.program(file))?;
        }
    }
    Ok(sum)
}

/// Runs one client with its own server, which counts the client's calls.
fn run_client(client: &'static str, server: &'static str, program: Program) -> Result<TestCounts> {
    let started = Instant::now();
    let [config, script] = gateway_files(client)?;
    let config = ("MCP_GATEWAY_CONFIG", &*config.to_string_lossy());
    let (command, env) = match server {
        FIXTURE => (test_server::binary(), vec![SSE]),
        Gateway::PROGRAM => (script, vec![config, ("MCP_GATEWAY_EVENTS", "memory"), SSE]),
        _ => (layout::binaries(false).join(server), NO_SERVICES.into()),
    };
    let name = format!("{client}-with-{server}");
    let log = format!("clients-{name}");
    let server = test_server::start(server, &format!("{log}-server"), &env)?;
    let program = test_server::unconfigured(program)
        .args([servers::url(server.port)])
        .args([command])
        .envs(env);
    let run = program.logged(&log, Some(Heartbeat::start("clients", client)))?;
    drop(server);
    let counts = counts(run.output.lines(), run.has_succeeded);
    let failures = run.output.lines().filter(|line| line.starts_with(FAILED));
    counts.print(&name, started, failures, &run.log);
    Ok(counts)
}

/// Writes the file of a gateway in front of the fixture, whose tools keep their names, and a script that starts it over
/// stdio: clients pass on no variables.
fn gateway_files(client: &str) -> Result<[PathBuf; 2]> {
    let dir = layout::backends().join("clients-gateway").join(client);
    clear_dir(&dir)?;
    let (config, script) = (dir.join("gateway.toml"), dir.join("gateway.sh"));
    let child = test_server::binary();
    let backend = format!("command = [{child:?}, \"--stdio\"]\nbare = true\n");
    fs::write(&config, format!("[backends.fixture]\n{backend}"))?;
    let gateway = layout::binaries(false).join(Gateway::PROGRAM);
    let exec = format!("exec {gateway:?} --config {config:?} --events memory \"$@\"");
    fs::write(&script, format!("#!/bin/sh\n{exec}\n"))?;
    fs::set_permissions(&script, Permissions::from_mode(0o700))?;
    Ok([config, script])
}

/// The start of a client's line about a failure.
const FAILED: &str = "FAILED ";

/// Counts the lines `ok …` and `FAILED …`.
fn counts<'a>(lines: impl Iterator<Item = &'a str>, has_succeeded: bool) -> TestCounts {
    let mut counts = TestCounts::default();
    for line in lines {
        counts.passed += u64::from(line.starts_with("ok "));
        counts.failed += u64::from(line.starts_with(FAILED));
    }
    counts.or_failed(has_succeeded)
}
