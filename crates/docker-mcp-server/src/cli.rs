//! The programs of Docker on this machine: `docker compose` and `docker buildx`.
//!
//! A program that reads the text of a model can read no file outside of the allowed directories, reach no
//! address, and take no more memory than it needs: the kernel (Landlock) refuses it. BuildKit fetches nothing but
//! images unless the policy lets it use the network of the engine's host.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{fs, io};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::Command;
use upstream::redact::Redactor;
use upstream::text::newest_lines;

use crate::deadline::Deadline;
use crate::docker::Docker;
use crate::engine::command::ProcessGroup;
use crate::engine::connector::api_version;
use crate::json::text;

const MAX_OUTPUT_BYTES: usize = 32 << 10;
/// Bytes of the output of a program that was ended, in the error, which contains it twice.
const MAX_OUTPUT_SO_FAR: usize = 6_000;
/// Most bytes of a line of the output; the rest of a longer one is dropped.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Most bytes of a model.
const MAX_STDOUT_BYTES: usize = 4 << 20;
/// Variables that a program gets from this server's environment, which are paths. The others may contain secrets,
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

/// A program of docker.
pub(crate) struct Kind {
    /// As a plugin of `docker`, and as a program of its own.
    words: [&'static [&'static str]; 2],
    /// The oldest version that does all that is asked of it.
    least: (u32, u32),
    missing: &'static str,
}

pub(crate) const COMPOSE: Kind = Kind {
    words: [&["docker", "compose"], &["docker-compose"]],
    least: (2, 24),
    missing: "There is no compose program where this server runs: install `docker compose` 2.24 or newer \
              (the package docker-compose-plugin, or docker-compose).",
};
pub(crate) const BUILDX: Kind = Kind {
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

#[derive(Default)]
pub(crate) struct Run<'a> {
    pub(crate) arguments: &'a [&'a str],
    pub(crate) input: Option<String>,
    /// Its lines are no progress.
    pub(crate) is_quiet: bool,
    /// It can read no other files than those below these directories.
    pub(crate) confined_to: Option<&'a [PathBuf]>,
}

pub(crate) struct Output {
    pub(crate) succeeded: bool,
    /// Its beginning.
    pub(crate) stdout: String,
    /// The newest lines of stdout and stderr; of stderr alone if it was quiet.
    pub(crate) text: String,
}

impl Cli {
    /// The program [`COMPOSE`] or [`BUILDX`], to be run in this directory.
    /// Errors when there is none, or only an old one.
    pub(crate) async fn find(
        docker: &Docker,
        directory: PathBuf,
        kind: &Kind,
    ) -> Result<Self, ToolError> {
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
            io::ErrorKind::Unsupported => ToolError::unavailable(NO_SANDBOX),
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
            for unneeded in ["DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SSH_AUTH_SOCK"] {
                command.env_remove(unneeded);
            }
        }
        let spawn = || ProcessGroup::spawn(&docker.programs, command);
        let mut group = match run.confined_to {
            Some(directories) => confined(&self.readable(directories), spawn),
            None => spawn(),
        }
        .map_err(failed)?;
        let (stdin, stdout, stderr) = std::mem::take(&mut group.streams);
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
                    newest_lines(&redactor.text(&text), MAX_OUTPUT_SO_FAR)
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

    /// The program itself, its plugins, also those that are links, and these directories.
    fn readable(&self, directories: &[PathBuf]) -> Vec<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path).map(|dir| dir.join(self.words[0]));
        let config = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let config = config.or_else(|| std::env::home_dir().map(|home| home.join(".docker")));
        let plugins = config.map(|config| config.join("cli-plugins"));
        let linked = plugins.iter().filter_map(|dir| {
            let plugin = format!("docker-{}", self.words.get(1)?);
            dir.join(plugin).canonicalize().ok()
        });
        let linked: Vec<PathBuf> = linked.collect();
        let own = program.chain(plugins).chain(linked);
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

/// Last words of a program in Go that ends for lack of memory.
const NO_MEMORY: [&str; 2] = [
    "fatal error: runtime: out of memory",
    "fatal error: runtime: cannot allocate memory",
];

const NO_PLUGIN: &str = "`docker` does not find its plugin where it may look here, which is in its usual directories: \
    install it there, or put a link to it into `cli-plugins` of the docker configuration (`~/.docker/cli-plugins`).";

/// Lines of a `docker` that does not know the command, in old and in new versions.
const NO_COMMAND: [&str; 2] = [
    "See 'docker --help'.",
    "Run 'docker --help' for more information",
];

/// An error with the end of a program's output.
pub(crate) fn failed(redactor: &Redactor, what: &str, output: &Output, most: usize) -> ToolError {
    let text = redactor.text(&output.text);
    let text = newest_lines(&text, most);
    let mut lines = output.text.lines();
    if lines.any(|line| NO_COMMAND.contains(&line.trim())) {
        return ToolError::unavailable(NO_PLUGIN);
    }
    // The sandbox refuses what is outside of the directories, and BuildKit what its policy denies.
    let (kind, hint) = if output.text.contains("permission denied") {
        let hint =
            " It may have named a file outside of those directories that --project-dir allows.";
        (ToolErrorKind::Forbidden, hint)
    } else if output.text.contains("denied by policy")
        || output.text.contains("network.host is not allowed")
    {
        (ToolErrorKind::Forbidden, REFUSED)
    } else if NO_MEMORY.iter().any(|said| output.text.contains(said)) {
        let hint =
            " It needed more memory than it may take (512 MiB): leave parts of the project out.";
        (ToolErrorKind::Forbidden, hint)
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
        let mut part = (&mut output).take(MAX_LINE_BYTES);
        let read = part.read_until(b'\n', &mut line).await.ok()?;
        let mut end = line.last().copied();
        // Alone, the rest of a secret would not be known as one.
        while read > 0 && end != Some(b'\n') {
            let mut rest = Vec::new();
            let mut part = (&mut output).take(MAX_LINE_BYTES);
            if part.read_until(b'\n', &mut rest).await.ok()? == 0 {
                break;
            }
            end = rest.last().copied();
        }
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

/// BuildKit's own policy about the sources of a build: images and the files of its directory, but no addresses, no
/// repositories, and no images from addresses that mean the host itself. It judges each one, whatever instruction, base
/// image or frontend names it.
const SOURCE_POLICY: &str = r#"{"rules": [
    {"action": "DENY", "selector": {"identifier": "*"}},
    {"action": "ALLOW", "selector": {"identifier": "docker-image://*"}},
    {"action": "ALLOW", "selector": {"identifier": "local://*"}},
    {"action": "DENY", "selector": {"match_type": "REGEX", "identifier":
        "^docker-image://(localhost|[^/]*\\.localhost|127\\.[^/]*|0\\.[^/]*|169\\.254\\.[^/]*|\\[(::|fe80)[^/]*|0x[0-9a-f]+|[0-9]+)[:/]"}}
]}"#;
/// The first version of the API of an engine whose BuildKit (0.11) knows such a policy: Docker 24.
const FIRST_WITH_POLICY: (usize, usize) = (1, 43);
/// In errors of builds that use the network of the engine's host.
const REFUSED: &str = " A build may not fetch an address or a repository, nor an image from the host itself, nor use \
     `--network=host`: that gives access to the network of the engine's host. Put the file beside the Dockerfile, or \
     get it in a RUN; or ask the operator of this server to allow `host_namespaces` in the policy file (--policy).";

/// The beginning of the names of directories for builds.
const BUILD_PREFIX: &str = "docker-mcp-build-";
/// The age of such a directory from which on it is left of a server that was killed: no call takes so long.
const MAX_BUILD_AGE: Duration = Duration::from_secs(24 * 3600);

/// A directory that is removed with this: the files of a build from texts, and the settings of the program.
pub(crate) struct BuildDirectory(TempDir);

impl BuildDirectory {
    /// Creates one with these files, of which the names are relative paths.
    /// Errors when one leads out of it.
    pub(crate) fn new<'a>(
        files: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, ToolError> {
        let unwritable = |error: io::Error| {
            ToolError::unavailable("The files of a build cannot be written.").caused_by(error)
        };
        remove_old_directories(&std::env::temp_dir());
        let directory = tempfile::Builder::new().prefix(BUILD_PREFIX).tempdir();
        let this = Self(directory.map_err(unwritable)?);
        fs::create_dir(this.context()).map_err(unwritable)?;
        fs::write(this.policy(), SOURCE_POLICY).map_err(unwritable)?;
        for (name, text) in files {
            let mut parts = Path::new(name).components();
            if name.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_))) {
                let text = format!("files: `{name}` is not a relative path without `..`.");
                return Err(ToolError::invalid_argument(text));
            }
            let file = this.context().join(name);
            let parent = file.parent().map_or(Ok(()), fs::create_dir_all);
            let written = parent.and_then(|()| fs::write(&file, text));
            written.map_err(unwritable)?;
        }
        Ok(this)
    }

    /// The directory with the files.
    pub(crate) fn context(&self) -> PathBuf {
        self.0.path().join("context")
    }

    fn policy(&self) -> PathBuf {
        self.0.path().join("policy.json")
    }

    /// The variables of a program that builds: the engine's own BuildKit, with the policy.
    pub(crate) fn variables(&self, docker: &Docker) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            ("DOCKER_BUILDKIT", "1".into()),
            ("BUILDX_BUILDER", "default".into()),
            ("BUILDX_CONFIG", self.0.path().join("buildx").into()),
        ];
        if !docker.policy.may_use_host_network() {
            let policy = self.policy().into();
            variables.push(("EXPERIMENTAL_BUILDKIT_SOURCE_POLICY", policy));
        }
        variables
    }
}

/// Removes the directories that killed servers have left. Best effort: some are of other users.
fn remove_old_directories(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_own = entry
            .file_name()
            .to_string_lossy()
            .starts_with(BUILD_PREFIX);
        let modified = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_own && modified().is_some_and(|age| age > MAX_BUILD_AGE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Docker {
    /// Errors when builds could reach the network of the engine's host: its BuildKit knows no policy.
    pub(crate) async fn permit_build(&self) -> Result<(), ToolError> {
        if self.policy.may_use_host_network() {
            return Ok(());
        }
        let reply: Value = self.engine.get(crate::engine::Path::to("/version")).await?;
        let version = api_version(text(&reply["ApiVersion"]));
        match version.is_some_and(|version| version >= FIRST_WITH_POLICY) {
            true => Ok(()),
            false => Err(ToolError::forbidden(
                "This engine is older than Docker 24 (or is Podman): it cannot keep a build from the network of its \
                 host. Update it, or ask the operator of this server to allow `host_namespaces` in the policy file \
                 (--policy).",
            )),
        }
    }
}

/// The text of the error where the system has no such sandbox.
const NO_SANDBOX: &str = "Compose files are only read by a program that the kernel keeps from all other files \
     (Landlock: Linux 5.13 or newer). This system has none; the operator of this server can allow compose without \
     it, with `privileged` in the policy file (--policy).";

/// Programs and their libraries.
#[cfg(target_os = "linux")]
const SYSTEM: [&str; 11] = [
    "/bin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/nix/store",
    "/etc/ld.so.cache",
];
/// Most bytes of memory; compose needs 30 MB for a usual project.
#[cfg(target_os = "linux")]
const MAX_MEMORY: u64 = 512 << 20;

/// Calls `spawn` in a thread that, with the programs which it starts, can only read what is below `directories`.
/// Errors with [`io::ErrorKind::Unsupported`] where the system has no sandbox.
#[cfg(target_os = "linux")]
fn confined(
    directories: &[PathBuf],
    spawn: impl FnOnce() -> io::Result<ProcessGroup> + Send,
) -> io::Result<ProcessGroup> {
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let _runtime = runtime.enter();
        restrict(directories).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
        let group = spawn()?;
        group.id.map_or(Ok(()), limit_memory)?;
        Ok(group)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        let lost = |_| Err(io::Error::other("the thread of a program broke off"));
        thread.join().unwrap_or_else(lost)
    })
}

#[cfg(target_os = "linux")]
fn restrict(directories: &[PathBuf]) -> Result<(), landlock::RulesetError> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
        Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, path_beneath_rules,
    };

    let read = AccessFs::from_read(ABI::V1);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        // Kernels since 6.7 also refuse connections.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::from_all(ABI::V4))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(directories, read))?;
    let rules = match PathFd::new("/dev/null") {
        Ok(null) => rules.add_rule(PathBeneath::new(null, AccessFs::from_file(ABI::V1)))?,
        Err(_) => rules,
    };
    rules.restrict_self().map(drop)
}

#[cfg(target_os = "linux")]
fn limit_memory(id: u32) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: Some(MAX_MEMORY),
        maximum: Some(MAX_MEMORY),
    };
    match prlimit(id, Resource::Data, limit) {
        // It may have ended already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn confined(
    _: &[PathBuf],
    _: impl FnOnce() -> io::Result<ProcessGroup> + Send,
) -> io::Result<ProcessGroup> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Drops lines at the beginning of `text` once it is twice as long as `max` bytes, which stay. A part of a line could be a
/// part of a secret.
fn keep_end(text: &mut String, max: usize) {
    if text.len() > 2 * max {
        let from = text.floor_char_boundary(text.len() - max);
        let from = text[..from].rfind('\n').map_or(0, |at| at + 1);
        text.drain(..from);
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
    fn plugin_is_missing_only_if_a_line_of_docker_says_so() {
        for (text, is_missing) in [
            ("unknown flag: -p\nSee 'docker --help'.\n", true),
            (
                "unknown flag: -p\n\nRun 'docker --help' for more information\n",
                true,
            ),
            ("#5 0.2 See 'docker --help'.\n", false),
        ] {
            let output = Output {
                succeeded: false,
                stdout: String::new(),
                text: text.to_owned(),
            };
            let error = failed(&Redactor::new(true), "It failed", &output, 100);
            assert_eq!(error.message() == NO_PLUGIN, is_missing, "{text}");
        }
    }

    #[test]
    fn outputs_are_cut_between_lines() {
        let mut text = "PASSWORD=Zx9qW7pL0secretvalue\n".repeat(5);
        keep_end(&mut text, 40);
        assert_eq!(text, "PASSWORD=Zx9qW7pL0secretvalue\n".repeat(2));
    }

    #[tokio::test]
    async fn rest_of_a_long_line_is_dropped() {
        let most = MAX_LINE_BYTES as usize;
        let text = format!("one\n{}\ntwo\nthree", "x".repeat(3 * most + 7));
        let read: Vec<_> = lines(io::Cursor::new(text), true).collect().await;
        let read: Vec<usize> = read.iter().map(|(line, _)| line.len()).collect();
        assert_eq!(read, [3, most, 3, 5]);
    }

    #[test]
    fn directories_of_killed_servers_are_removed() {
        let place = TempDir::new().unwrap();
        let now = std::time::SystemTime::now();
        let made = ["docker-mcp-build-old", "docker-mcp-build-new", "other"].map(|name| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join("context")).unwrap();
            let age = if name.ends_with("new") {
                MAX_BUILD_AGE / 2
            } else {
                2 * MAX_BUILD_AGE
            };
            fs::File::open(&path)
                .unwrap()
                .set_modified(now - age)
                .unwrap();
            path
        });
        remove_old_directories(place.path());
        assert_eq!(made.map(|path| path.exists()), [false, true, true]);
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
