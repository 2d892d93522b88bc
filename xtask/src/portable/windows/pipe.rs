//! Checks Docker's named pipe, with an engine that has one container.

use anyhow::ensure;

use super::super::wine::{Command, Wine};
use super::{call_tool, client};

const ENGINE: &str = "pipe.exe";
const SOURCE: &str = include_str!("pipe.c");
const COMPILE: &str = "x86_64-w64-mingw32-gcc -O1 -o pipe.exe pipe.c";

pub(super) fn docker(wine: &Wine<'_>) -> anyhow::Result<()> {
    wine.write("pipe.c", SOURCE)?;
    wine.shell(COMPILE)?;
    let engine = Command {
        program: ENGINE,
        args: &[r"\\.\pipe\docker_check"],
        ..Command::default()
    };
    let mut engine = wine.spawn(engine)?;
    let host = [("DOCKER_HOST", "npipe:////./pipe/docker_check")];
    let server = wine.serve("docker-mcp-server", &[], &host)?;
    let client = client(server.running.port, None);
    let mut found = String::new();
    let is_found = wine.wait_until(|| {
        let result = call_tool(&client, "list_containers");
        found = result.map_or_else(|error| error.to_string(), |result| result.to_string());
        found.contains("over-the-pipe") || engine.ended()
    });
    ensure!(
        is_found && !engine.ended(),
        "the engine's container is not listed: {found}"
    );
    Ok(())
}
