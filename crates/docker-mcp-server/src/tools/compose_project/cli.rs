//! The compose program: `docker compose`, or the older `docker-compose`.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use futures_util::stream::{self, BoxStream};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::Command;

use super::super::deadline::Deadline;
use super::super::prelude::*;
use crate::engine::command::ProcessGroup;

/// Bytes of output that are kept, the newest.
const MAX_OUTPUT_BYTES: usize = 32 << 10;
/// Longest line of the output.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Most bytes of a model.
const MAX_STDOUT_BYTES: usize = 4 << 20;
/// Variables that the program gets from this server's environment. The others may contain secrets,
/// which a compose file could read.
const PASSED_VARIABLES: &str = "PATH HOME LD_LIBRARY_PATH DOCKER_CONFIG SSH_AUTH_SOCK SYSTEMROOT USERPROFILE \
     PROGRAMFILES PROGRAMDATA TEMP";
/// Variables that a project's `.env` must not set: other names, and removals.
const OFF: [&str; 2] = ["COMPOSE_COMPATIBILITY", "COMPOSE_REMOVE_ORPHANS"];

/// The program, and the directory in which it runs.
pub(super) struct Compose {
    words: &'static [&'static str],
    directory: PathBuf,
}

/// The result of the program.
pub(super) struct ComposeOutput {
    pub(super) succeeded: bool,
    /// Its beginning.
    pub(super) stdout: String,
    /// The newest lines of stdout and stderr.
    pub(super) text: String,
}

impl Compose {
    /// The first of the two programs that can be run.
    /// Errors when there is none.
    pub(super) async fn find(docker: &Docker, directory: PathBuf) -> Result<Self, ToolError> {
        let mut found = Self {
            words: &["docker", "compose"],
            directory,
        };
        for words in [found.words, &["docker-compose"]] {
            found.words = words;
            let mut probe = found.command(docker);
            let probe = probe.arg("version").stdout(Stdio::null());
            let probe = probe.stderr(Stdio::null());
            if probe.status().await.is_ok_and(|status| status.success()) {
                return Ok(found);
            }
        }
        Err(ToolError::unavailable(
            "There is no compose program where this server runs: install `docker compose` or \
             `docker-compose`. Projects can be seen, started, stopped and taken down without it.",
        ))
    }

    /// Runs the program with `input`, and its lines as progress. Kills it, with the programs that it has
    /// started, at the deadline and when the call is cancelled; the engine keeps what it has started.
    /// Errors when it cannot be run, or was killed.
    pub(super) async fn run(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        arguments: &[&str],
        input: Option<String>,
    ) -> Result<ComposeOutput, ToolError> {
        let failed = |error: io::Error| {
            ToolError::unavailable("The compose program cannot be run.").caused_by(error)
        };
        let mut command = self.command(docker);
        let stdin = input.as_ref().map_or_else(Stdio::null, |_| Stdio::piped());
        command
            .args(arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = ProcessGroup::spawn(&docker.programs, command).map_err(failed)?;
        let (stdin, stdout, stderr) = group.streams();
        if let (Some(input), Some(mut stdin)) = (input, stdin) {
            tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        }
        let stdout = stdout.map(|output| lines(output, true));
        let stderr = stderr.map(|output| lines(output, false));
        let mut lines = stream::select_all(stdout.into_iter().chain(stderr));
        let (mut text, mut model, mut count) = (String::new(), String::new(), 0.0);
        let redactor = docker.redactor();
        loop {
            let ended = |seconds| {
                format!(
                    "Compose did not end within {seconds} s and was ended; what it has started \
                     stays. Its output so far:\n{}",
                    redactor.text(&text)
                )
            };
            let next = deadline.run(call, lines.next(), ended).await?;
            let Some((line, is_stdout)) = next else { break };
            let line = without_odd_variable(line);
            if is_stdout && model.len() < MAX_STDOUT_BYTES {
                model.push_str(&line);
                model.push('\n');
            }
            if arguments.contains(&"config") && is_stdout {
                continue;
            }
            count += 1.0;
            call.progress(count, None, &redactor.text(&line));
            text.push_str(&line);
            text.push('\n');
            keep_end(&mut text, MAX_OUTPUT_BYTES);
        }
        let status = deadline.run(call, group.wait(), |_| "Compose did not end.".to_owned());
        let status = status.await?.map_err(failed)?;
        Ok(ComposeOutput {
            succeeded: status.success(),
            stdout: model,
            text,
        })
    }

    fn command(&self, docker: &Docker) -> Command {
        let mut command = Command::new(self.words[0]);
        let passed = PASSED_VARIABLES.split(' ');
        let passed = passed.filter_map(|name| Some((name, std::env::var_os(name)?)));
        command
            .args(&self.words[1..])
            .current_dir(&self.directory)
            .env_clear()
            .envs(passed)
            .envs(OFF.map(|name| (name, "false")))
            .envs(docker.engine.address().environment())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

/// The lines of an output, to its end. A program whose output is not read any more is ended by its next write.
fn lines(
    output: impl AsyncRead + Send + Unpin + 'static,
    is_stdout: bool,
) -> BoxStream<'static, (String, bool)> {
    let lines = stream::unfold(BufReader::new(output), move |mut output| async move {
        let mut line = Vec::new();
        // The rest of a longer line is the next one.
        let mut part = (&mut output).take(MAX_LINE_BYTES);
        let read = part.read_until(b'\n', &mut line).await.ok()?;
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        (read > 0).then_some(((text, is_stdout), output))
    });
    lines.boxed()
}

/// The line without the name of a variable that may be a part of a secret: compose takes the `$` in the hash of
/// a password for the start of a name, and warns that this variable is not set.
fn without_odd_variable(line: String) -> String {
    let Some((before, rest)) = line.split_once(" variable is not set") else {
        return line;
    };
    let (start, quoted) = before.rsplit_once(' ').unwrap_or(("", before));
    let name = quoted.trim_matches(['\\', '"']);
    let is_usual = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    match name.bytes().all(is_usual) {
        true => line,
        false => format!("{start} *** variable is not set{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_secrets_are_no_names_of_variables() {
        for (line, expected) in [
            (
                "The \\\"a1Zq\\\" variable is not set.",
                "The *** variable is not set.",
            ),
            (
                "The \"a1\" variable is not set.",
                "The *** variable is not set.",
            ),
            (
                "The \"DB_1\" variable is not set.",
                "The \"DB_1\" variable is not set.",
            ),
            ("Container a1  Started", "Container a1  Started"),
        ] {
            assert_eq!(without_odd_variable(line.to_owned()), expected);
        }
    }
}
