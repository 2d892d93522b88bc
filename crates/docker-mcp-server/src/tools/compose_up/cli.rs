//! The compose program: `docker compose`, or the older `docker-compose`.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::Instant;

use super::super::prelude::{cancelled, keep_end};
use crate::docker::Docker;

/// Bytes of output that are kept, the newest.
const MAX_OUTPUT_BYTES: usize = 32 << 10;
/// Variables that the program gets from this server's environment. The others may contain secrets,
/// which a compose file could read.
const PASSED_VARIABLES: &str = "PATH HOME LD_LIBRARY_PATH DOCKER_CONFIG SSH_AUTH_SOCK SYSTEMROOT";

/// Most bytes of a model.
const MAX_STDOUT_BYTES: usize = 4 << 20;

/// The result of the program.
pub(super) struct ComposeOutput {
    pub(super) succeeded: bool,
    /// Its beginning.
    pub(super) stdout: String,
    /// The newest lines of stdout and stderr.
    pub(super) text: String,
}

/// Runs the program in `directory` with `input`, and its lines as progress. Kills it after `limit` and when
/// the call is cancelled; the engine keeps what it has already started.
/// Errors when there is no such program, or it was killed.
pub(super) async fn run(
    docker: &Docker,
    directory: &Path,
    arguments: &[&str],
    input: Option<String>,
    limit: Duration,
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
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
    }
    let until = Instant::now() + limit;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Lines::new(stdout), Lines::new(stderr));
    let (mut text, mut model, mut count) = (String::new(), String::new(), 0.0);
    loop {
        let next = async {
            tokio::select! {
                Some(line) = out.next() => Some((line, true)),
                Some(line) = err.next() => Some((line, false)),
                else => None,
            }
        };
        let line = tokio::select! {
            biased;
            () = call.cancelled() => {
                let _ = child.kill().await;
                return Err(cancelled());
            }
            () = tokio::time::sleep_until(until) => {
                let _ = child.kill().await;
                let text = docker.redactor().text(&text);
                return Err(ToolError::new(ToolErrorKind::Timeout, format!(
                    "Compose did not end within {} s and was ended; what it has started stays. Its \
                     output so far:\n{text}",
                    limit.as_secs()
                )));
            }
            line = next => line,
        };
        let Some((line, is_stdout)) = line else { break };
        if is_stdout && model.len() < MAX_STDOUT_BYTES {
            model.push_str(&line);
            model.push('\n');
        }
        if arguments.contains(&"config") && is_stdout {
            continue;
        }
        count += 1.0;
        call.progress(count, None, &docker.redactor().text(&line));
        text.push_str(&line);
        text.push('\n');
        keep_end(&mut text, MAX_OUTPUT_BYTES);
    }
    let succeeded = child.wait().await.map_err(failed)?.success();
    Ok(ComposeOutput {
        succeeded,
        stdout: model,
        text,
    })
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
