//! Checks for which another Windows program is needed: small ones in C, which are compiled here.

use std::net::TcpListener;

use anyhow::ensure;

use super::super::wine::{Command, Wine};
use super::{call_tool, client, list_tools};

const ENGINE: &str = include_str!("pipe.c");
const BREAK: &str = include_str!("break.c");

fn compile(wine: &Wine<'_>, name: &str, source: &str) -> anyhow::Result<()> {
    wine.write(&format!("{name}.c"), source)?;
    let compiler = "x86_64-w64-mingw32-gcc -O1";
    wine.shell(&format!("{compiler} -o {name}.exe {name}.c"))
}

/// An engine with one container on a named pipe, as Docker Desktop has it.
pub(super) fn named_pipe(wine: &Wine<'_>) -> anyhow::Result<()> {
    compile(wine, "pipe", ENGINE)?;
    let mut engine = wine.spawn(Command {
        program: "pipe.exe",
        args: &[r"\\.\pipe\docker_check"],
        ..Command::default()
    })?;
    let host = [("DOCKER_HOST", "npipe:////./pipe/docker_check")];
    let (_server, port) = wine.serve("docker-mcp-server", &[], &host)?;
    let client = client(port, None);
    let mut found = String::new();
    let is_found = wine.wait_until(|| {
        let result = call_tool(&client, "list_containers");
        found = result.map_or_else(|error| error.to_string(), |result| result.to_string());
        found.contains("over-the-pipe") || engine.process.ended()
    });
    let is_found = is_found && found.contains("over-the-pipe");
    ensure!(is_found, "the engine's container is not listed: {found}");
    Ok(())
}

/// A signal that consoles, and wrappers that make a service of a program, may send instead of Ctrl-C.
pub(super) fn ctrl_break(wine: &Wine<'_>) -> anyhow::Result<()> {
    compile(wine, "break", BREAK)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut server = wine.spawn(Command {
        program: "break.exe",
        args: &[
            "docker-mcp-server.exe",
            "--log",
            "info",
            "--port",
            &port.to_string(),
        ],
        ..Command::default()
    })?;
    let listens =
        wine.wait_until(|| list_tools(&client(port, None)).is_ok() || server.process.ended());
    ensure!(
        listens && !server.process.ended(),
        "the server does not start"
    );
    wine.write("go", "")?;
    let code = server.wait(wine)?;
    ensure!(code == 0, "exit code {code}");
    ensure!(
        server.log().contains("stopping"),
        "it was not asked to stop"
    );
    Ok(())
}
