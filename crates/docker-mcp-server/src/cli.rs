//! The programs of Docker on this machine: `docker compose` and `docker buildx`.

mod builds;
mod sandbox;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::Command;
use upstream::redact::Redactor;

use crate::docker::Docker;
use crate::engine::command::ProcessGroup;
use crate::tools::{Deadline, keep_end};

pub(crate) use builds::BuildDirectory;

/// Bytes of output that are kept, the newest.
const MAX_OUTPUT_BYTES: usize = 32 << 10;
/// Longest line of the output.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Most bytes of a model.
const MAX_STDOUT_BYTES: usize = 4 << 20;
/// Variables that a program gets from this server's environment. The others may contain secrets,
/// which a compose file could read.
const PASSED_VARIABLES: &str = "PATH HOME LD_LIBRARY_PATH DOCKER_CONFIG SSH_AUTH_SOCK SYSTEMROOT USERPROFILE \
     PROGRAMFILES PROGRAMDATA TEMP";
/// Variables that a project's `.env` must not set: other names, removals, and projects from elsewhere. Services
/// that a call did not name are missing in what `up` gets, so they would be taken for orphans.
const SET_VARIABLES: [(&str, &str); 5] = [
    ("COMPOSE_COMPATIBILITY", "false"),
    ("COMPOSE_REMOVE_ORPHANS", "false"),
    ("COMPOSE_IGNORE_ORPHANS", "true"),
    ("COMPOSE_EXPERIMENTAL_GIT_REMOTE", "false"),
    ("COMPOSE_EXPERIMENTAL_OCI_REMOTE", "false"),
];

/// A kind of program.
struct Kind {
    /// As a plugin of `docker`, and as a program of its own.
    words: [&'static [&'static str]; 2],
    /// The oldest version that does all that is asked of it.
    least: (u32, u32),
    missing: &'static str,
}

const COMPOSE: Kind = Kind {
    words: [&["docker", "compose"], &["docker-compose"]],
    least: (2, 24),
    missing: "There is no compose program where this server runs: install `docker compose` 2.24 or newer \
              (the package docker-compose-plugin, or docker-compose).",
};
const BUILDX: Kind = Kind {
    words: [&["docker", "buildx"], &["docker-buildx"]],
    least: (0, 10),
    missing: "There is no build program where this server runs: install `docker buildx` 0.10 or newer \
              (the package docker-buildx-plugin, or docker-buildx).",
};

/// A program, and the directory and the environment in which it runs.
#[derive(Clone)]
pub(crate) struct Cli {
    words: &'static [&'static str],
    version: (u32, u32),
    directory: PathBuf,
    variables: HashMap<&'static str, OsString>,
}

/// A run of a program.
#[derive(Default)]
pub(crate) struct Run<'a> {
    pub(crate) arguments: &'a [&'a str],
    pub(crate) input: Option<String>,
    /// Its lines are no progress.
    pub(crate) is_quiet: bool,
    /// It can read no other files than those below these directories.
    pub(crate) confined_to: Option<&'a [PathBuf]>,
}

/// The result of a program.
pub(crate) struct Output {
    pub(crate) succeeded: bool,
    /// Its beginning.
    pub(crate) stdout: String,
    /// The newest lines of stdout and stderr; of stderr alone if it was quiet.
    pub(crate) text: String,
}

impl Cli {
    /// `docker compose`, or `docker-compose`.
    /// Errors when there is none, or only an old one.
    pub(crate) async fn compose(docker: &Docker, directory: PathBuf) -> Result<Self, ToolError> {
        Self::find(docker, directory, &COMPOSE).await
    }

    /// `docker buildx`.
    /// Errors when there is none, or only an old one.
    pub(crate) async fn buildx(docker: &Docker, directory: PathBuf) -> Result<Self, ToolError> {
        Self::find(docker, directory, &BUILDX).await
    }

    async fn find(docker: &Docker, directory: PathBuf, kind: &Kind) -> Result<Self, ToolError> {
        let mut found = Self {
            words: &[],
            version: (0, 0),
            directory,
            variables: HashMap::new(),
        };
        for words in kind.words {
            found.words = words;
            let probe = found.command(docker).arg("version").output().await;
            let printed = probe.map(|probe| String::from_utf8_lossy(&probe.stdout).into_owned());
            if let Some(version) = version(&printed.unwrap_or_default())
                && version >= kind.least
            {
                found.version = version;
                return Ok(found);
            }
        }
        Err(ToolError::unavailable(kind.missing))
    }

    /// Errors when this compose would build without BuildKit, to which no policy applies: since version 5 it has
    /// none of its own, and does so where the plugin is missing.
    pub(crate) async fn permit_build(&self, docker: &Docker) -> Result<(), ToolError> {
        if self.version < (3, 0) {
            return Ok(());
        }
        let plugin = Kind {
            words: [BUILDX.words[0]; 2],
            ..BUILDX
        };
        Self::find(docker, self.directory.clone(), &plugin)
            .await
            .map(drop)
    }

    /// Sets variables of the program.
    pub(crate) fn set(&mut self, variables: impl IntoIterator<Item = (&'static str, OsString)>) {
        self.variables.extend(variables);
    }

    /// Runs the program, with its lines as progress. Kills it, with the programs that it has started, at the
    /// deadline and when the call is cancelled; the engine keeps what it has started.
    /// Errors when it cannot be run, or was killed.
    pub(crate) async fn run(
        &self,
        docker: &Docker,
        call: &Call,
        deadline: &Deadline,
        redactor: &Redactor,
        run: Run<'_>,
    ) -> Result<Output, ToolError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Unsupported => ToolError::unavailable(sandbox::MISSING),
            _ => ToolError::unavailable("The program cannot be run.").caused_by(error),
        };
        let mut command = self.command(docker);
        let stdin = run
            .input
            .as_ref()
            .map_or_else(Stdio::null, |_| Stdio::piped());
        command
            .args(run.arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if run.confined_to.is_some() {
            // It does not ask the engine, nor can it read the certificates.
            command.env("DOCKER_HOST", "unix:///dev/null");
            command.env_remove("DOCKER_TLS_VERIFY");
            command.env_remove("DOCKER_CERT_PATH");
        }
        let spawn = || ProcessGroup::spawn(&docker.programs, command);
        let mut group = match run.confined_to {
            Some(directories) => {
                sandbox::confined(&self.readable(directories), spawn, ProcessGroup::id)
            }
            None => spawn(),
        }
        .map_err(failed)?;
        let (stdin, stdout, stderr) = group.streams();
        if let (Some(input), Some(mut stdin)) = (run.input, stdin) {
            tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        }
        let stdout = stdout.map(|output| lines(output, true));
        let stderr = stderr.map(|output| lines(output, false));
        let mut lines = stream::select_all(stdout.into_iter().chain(stderr));
        let (mut text, mut beginning, mut count) = (String::new(), String::new(), 0.0);
        loop {
            let ended = |seconds| {
                format!(
                    "`{}` did not end within {seconds} s and was ended; what it has started stays. \
                     A longer timeout_seconds may let it end by itself. Its output so far:\n{}",
                    self.words.join(" "),
                    redactor.text(&text)
                )
            };
            let next = deadline.run(call, lines.next(), ended).await?;
            let Some((line, is_stdout)) = next else { break };
            // With the logins, which a confined program cannot read.
            if line.contains("Error loading config file") {
                continue;
            }
            let line = without_odd_variable(line);
            if is_stdout && beginning.len() < MAX_STDOUT_BYTES {
                beginning.push_str(&line);
                beginning.push('\n');
            }
            if run.is_quiet && is_stdout {
                continue;
            }
            count += 1.0;
            if !run.is_quiet {
                call.progress(count, None, &redactor.text(&line));
            }
            text.push_str(&line);
            text.push('\n');
            keep_end(&mut text, MAX_OUTPUT_BYTES);
        }
        let status = deadline.run(call, group.wait(), |_| {
            "The program did not end.".to_owned()
        });
        let status = status.await?.map_err(failed)?;
        Ok(Output {
            succeeded: status.success(),
            stdout: beginning,
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
            .envs(SET_VARIABLES)
            .envs(docker.engine.address().environment())
            .envs(&self.variables)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The program itself, its plugins, and these directories.
    fn readable(&self, directories: &[PathBuf]) -> Vec<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path).map(|dir| dir.join(self.words[0]));
        let config = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let config = config.or_else(|| std::env::home_dir().map(|home| home.join(".docker")));
        let plugins = config.map(|config| config.join("cli-plugins"));
        let own = program.chain(plugins);
        own.chain(directories.iter().cloned()).collect()
    }
}

/// The major and the minor version in the output of `version`.
fn version(printed: &str) -> Option<(u32, u32)> {
    let mut words = printed.split_whitespace();
    words.find_map(|word| {
        let mut parts = word.trim_start_matches('v').split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

/// An error with the end of a program's output.
pub(crate) fn failed(redactor: &Redactor, what: &str, output: &Output, most: usize) -> ToolError {
    let text = redactor.text(&output.text);
    let text = upstream::text::newest_lines(&text, most);
    // The sandbox refuses what is outside of the directories, and BuildKit what its policy denies.
    let (kind, hint) = if output.text.contains("permission denied") {
        let hint =
            " It may have named a file outside of those directories that --project-dir allows.";
        (ToolErrorKind::Forbidden, hint)
    } else if output.text.contains("denied by policy")
        || output.text.contains("network.host is not allowed")
    {
        (ToolErrorKind::Forbidden, builds::REFUSED)
    } else {
        (ToolErrorKind::Upstream, "")
    };
    ToolError::new(
        kind,
        format!("{what}.{hint} The end of its output:\n{text}"),
    )
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

    #[test]
    fn versions_are_read_as_the_programs_print_them() {
        for (printed, expected) in [
            ("Docker Compose version 2.26.1-4", Some((2, 26))),
            ("Docker Compose version v5.1.0", Some((5, 1))),
            (
                "docker-compose version 1.29.2, build unknown",
                Some((1, 29)),
            ),
            ("github.com/docker/buildx v0.25.0 faaea65", Some((0, 25))),
            (
                "github.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3",
                Some((0, 13)),
            ),
            ("", None),
        ] {
            assert_eq!(version(printed), expected, "{printed}");
        }
    }
}
