//! Checks Docker's named pipe, with a small engine in C.

use anyhow::ensure;

use super::super::wine::{Command, Wine};
use super::{call_tool, client};

const ENGINE: &str = include_str!("pipe.c");

/// An engine with one container on a named pipe, as Docker Desktop has it.
pub(super) fn docker(wine: &Wine<'_>) -> anyhow::Result<()> {
    wine.write("pipe.c", ENGINE)?;
    wine.shell("x86_64-w64-mingw32-gcc -O1 -o pipe.exe pipe.c")?;
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
