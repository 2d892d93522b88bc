//! The compose program: `docker compose`, or the older `docker-compose`.

use std::io;
use std::path::Path;
use std::process::Stdio;

use mcp_core::tool::{Call, ToolError};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use super::super::prelude::{cancelled, keep_end};
use crate::docker::Docker;

/// Bytes of output that are kept, the newest.
const MAX_OUTPUT_BYTES: usize = 32 << 10;
/// Variables that the program gets from this server's environment. The others may contain secrets,
/// which a compose file could read.
const PASSED_VARIABLES: &str = "PATH HOME LD_LIBRARY_PATH DOCKER_CONFIG SYSTEMROOT";

/// The result of the program.
pub(super) struct ComposeOutput {
    pub(super) succeeded: bool,
    /// The newest lines of stdout and stderr.
    pub(super) text: String,
}

/// Runs the program in `directory`, with its lines as progress. Kills it when the call is cancelled.
/// Errors when there is no such program, or the call is cancelled.
pub(super) async fn run(
    docker: &Docker,
    directory: &Path,
    arguments: &[&str],
    call: &Call,
) -> Result<ComposeOutput, ToolError> {
    let failed = |error: io::Error| {
        ToolError::unavailable("The compose program cannot be run.").caused_by(error)
    };
    let Some(mut command) = find(docker, directory).await else {
        return Err(ToolError::unavailable(
            "There is no compose program where this server runs: install `docker compose` or \
             `docker-compose`. Projects can be seen and taken down without it.",
        ));
    };
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Lines::new(stdout), Lines::new(stderr));
    let (mut text, mut count) = (String::new(), 0.0);
    loop {
        let next = async {
            tokio::select! {
                Some(line) = out.next() => Some(line),
                Some(line) = err.next() => Some(line),
                else => None,
            }
        };
        let line = tokio::select! {
            biased;
            () = call.cancelled() => {
                // The engine keeps what it has already started.
                let _ = child.kill().await;
                return Err(cancelled());
            }
            line = next => line,
        };
        let Some(line) = line else { break };
        count += 1.0;
        call.progress(count, None, &docker.redactor().text(&line));
        text.push_str(&line);
        text.push('\n');
        keep_end(&mut text, MAX_OUTPUT_BYTES);
    }
    let succeeded = child.wait().await.map_err(failed)?.success();
    Ok(ComposeOutput { succeeded, text })
}

/// The first of the two programs that can be run.
async fn find(docker: &Docker, directory: &Path) -> Option<Command> {
    for words in [&["docker", "compose"][..], &["docker-compose"]] {
        let mut probe = command(docker, directory, words);
        let probe = probe.arg("version").stdout(Stdio::null());
        let probe = probe.stderr(Stdio::null());
        if probe.status().await.is_ok_and(|status| status.success()) {
            return Some(command(docker, directory, words));
        }
    }
    None
}

fn command(docker: &Docker, directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    let passed = PASSED_VARIABLES.split(' ');
    let passed = passed.filter_map(|name| Some((name, std::env::var_os(name)?)));
    command
        .args(&words[1..])
        .current_dir(directory)
        .env_clear()
        .envs(passed)
        .envs(docker.engine.target.environment())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The lines of one output.
struct Lines(Option<tokio::io::Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>>);

impl Lines {
    fn new(output: Option<impl AsyncRead + Send + Unpin + 'static>) -> Self {
        Self(output.map(|output| {
            let output: Box<dyn AsyncRead + Send + Unpin> = Box::new(output);
            BufReader::new(output).lines()
        }))
    }

    /// The next line; `None` at the end, or if it is not UTF-8.
    async fn next(&mut self) -> Option<String> {
        let line = self.0.as_mut()?.next_line().await;
        line.ok().flatten()
    }
}
