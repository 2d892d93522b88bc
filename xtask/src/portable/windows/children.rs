//! Checks that the processes of a backend end with their gateway.

use std::net::TcpListener;

use anyhow::ensure;
use nix::sys::signal::{Signal, kill};

use super::super::wine::{Command, Started, WINDOWS_FOLDER, Wine};
use super::{client, list_tools, stdio_session, wait_for_tool};

/// A backend: it serves over stdio, and leaves a process behind that does not end with its stdin.
const FAMILY: &str =
    "@start /b docker-mcp-server.exe --port PORT\n@docker-mcp-server.exe --stdio\n";

/// The program of the backend is `family.cmd`.
const CONFIG: &str = r#"
[backends.docker]
command = ["family"]
env = { DOCKER_HOST = "tcp://127.0.0.1:1" }
"#;

const TOOL: &str = "docker__list_containers";

/// A gateway with a backend of two processes, the second of which listens on a port.
struct Family {
    gateway: Started,
    port: u16,
}

impl Family {
    fn start(wine: &Wine<'_>) -> anyhow::Result<Self> {
        let port = write(wine)?;
        let config = config();
        let (gateway, own_port) = wine.serve(
            "mcp-gateway",
            &["--events", "memory", "--config", &config],
            &[],
        )?;
        wait_for_tool(wine, &client(own_port, None), TOOL)?;
        let is_up = wine.wait_until(|| list_tools(&client(port, None)).is_ok());
        ensure!(is_up, "the second process of the backend does not listen");
        let count = wine.processes("docker-mcp-server.exe").len();
        ensure!(count == 2, "the backend has {count} processes");
        Ok(Self { gateway, port })
    }

    fn signal(&self, wine: &Wine<'_>, signal: Signal) -> anyhow::Result<()> {
        let gateways = wine.processes("mcp-gateway.exe");
        ensure!(gateways.len() == 1, "gateways: {gateways:?}");
        Ok(kill(gateways[0], signal)?)
    }
}

pub(super) fn killed(wine: &Wine<'_>) -> anyhow::Result<()> {
    let family = Family::start(wine)?;
    family.signal(wine, Signal::SIGKILL)?;
    all_end(wine, family.port)
}

pub(super) fn interrupted(wine: &Wine<'_>) -> anyhow::Result<()> {
    let mut family = Family::start(wine)?;
    family.signal(wine, Signal::SIGINT)?;
    let code = family.gateway.wait(wine)?;
    ensure!(code == 0, "exit code {code}");
    all_end(wine, family.port)
}

/// The gateway itself serves over stdio, and ends with it.
pub(super) fn at_eof(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (port, config, input) = (write(wine)?, config(), stdio_session());
    let output = wine.run(Command {
        program: "mcp-gateway",
        args: &["--stdio", "--events", "memory", "--config", &config],
        stdin: Some(&input),
        ..Command::default()
    })?;
    let output = output.success()?;
    ensure!(output.contains(TOOL), "no {TOOL} in {output:?}");
    all_end(wine, port)
}

/// Writes the files of the gateway and its backend, and returns the port of the second process.
fn write(wine: &Wine<'_>) -> anyhow::Result<u16> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    wine.write("family.cmd", &FAMILY.replace("PORT", &port.to_string()))?;
    wine.write("gateway.toml", CONFIG)?;
    Ok(port)
}

fn config() -> String {
    format!(r"{WINDOWS_FOLDER}\gateway.toml")
}

fn all_end(wine: &Wine<'_>, port: u16) -> anyhow::Result<()> {
    let family = || wine.processes("docker-mcp-server.exe");
    let is_gone = wine.wait_until(|| family().is_empty());
    ensure!(is_gone, "processes of the backend go on: {:?}", family());
    ensure!(
        list_tools(&client(port, None)).is_err(),
        "the port still answers"
    );
    Ok(())
}
