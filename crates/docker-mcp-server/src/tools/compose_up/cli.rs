//! The compose program: `docker compose`, or the older `docker-compose`.

use std::io;
use std::path::Path;
use std::process::Stdio;

use mcp_core::tool::{Call, ToolError};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use super::super::wait_container::cancelled;
use crate::docker::Docker;

/// Bytes of output that are kept, the newest.
const KEPT: usize = 32 << 10;
/// What the program needs of this server's environment. The rest may hold secrets, which a compose
/// file could read.
const PASSED: [&str; 5] = [
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "DOCKER_CONFIG",
    "SYSTEMROOT",
];

/// What became of it.
pub(super) struct Done {
    pub(super) succeeded: bool,
    /// Both outputs, the newest lines.
    pub(super) output: String,
}

/// Runs it in `directory`, with its lines as progress. It ends with the call.
/// Errors when there is no such program, or the caller gives up.
pub(super) async fn run(
    docker: &Docker,
    directory: &Path,
    arguments: &[&str],
    call: &Call,
) -> Result<Done, ToolError> {
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
    let (mut out, mut err) = (Lines::of(stdout), Lines::of(stderr));
    let (mut output, mut count) = (String::new(), 0.0);
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
                // It has told the engine what to do; what was begun stays.
                let _ = child.kill().await;
                return Err(cancelled());
            }
            line = next => line,
        };
        let Some(line) = line else { break };
        count += 1.0;
        call.progress(count, None, &docker.redactor().text(&line));
        output.push_str(&line);
        output.push('\n');
        if output.len() > 2 * KEPT {
            let from = output.len() - KEPT;
            let from = (from..output.len()).find(|at| output.is_char_boundary(*at));
            output.drain(..from.unwrap_or(0));
        }
    }
    let status = child.wait().await.map_err(failed)?;
    Ok(Done {
        succeeded: status.success(),
        output,
    })
}

/// The first of the two programs that answers.
async fn find(docker: &Docker, directory: &Path) -> Option<Command> {
    for words in [&["docker", "compose"][..], &["docker-compose"]] {
        let mut probe = command(docker, directory, words);
        probe
            .arg("version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if probe.status().await.is_ok_and(|status| status.success()) {
            return Some(command(docker, directory, words));
        }
    }
    None
}

fn command(docker: &Docker, directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    let passed = PASSED
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    command
        .args(&words[1..])
        .current_dir(directory)
        .env_clear()
        .envs(passed)
        .envs(docker.engine.target().environment())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The lines of one output.
struct Lines(Option<tokio::io::Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>>);

impl Lines {
    fn of(output: Option<impl AsyncRead + Send + Unpin + 'static>) -> Self {
        Self(output.map(|output| {
            let output: Box<dyn AsyncRead + Send + Unpin> = Box::new(output);
            BufReader::new(output).lines()
        }))
    }

    /// `None` at its end, and where it is no text.
    async fn next(&mut self) -> Option<String> {
        let line = self.0.as_mut()?.next_line().await;
        line.ok().flatten()
    }
}
