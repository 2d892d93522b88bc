//! `cargo xtask first-minutes`: installs the package of the Docker server in a Debian without a toolchain,
//! connects a host, and calls a tool as the file of the host says; prints the seconds of each step.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::args::Options;
use crate::cargo::exit_code;
use crate::install::{minbase, unavailable};
use crate::instance::{Instance, Purpose, clear_dir};
use crate::layout::{Layout, create_dir};
use crate::process::Process;
use crate::services::{Service as _, docker};

/// The prefix of the lines on the terminal.
const WHO: &str = "first";

const PROGRAM: &str = "docker-mcp-server";

/// The socket of an engine that most machines have, and where the new Debian gets the one that is used.
const SOCKET: &str = "/var/run/docker.sock";

/// The time of everything that a user waits for.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The first call of a user.
const TOOL: &str = "list_containers";

/// The folder of the user in the Debian.
const HOME: &str = "/home/user";

/// Runs a command in the Debian `$0`, whose engine is that of the socket `$1`. Mounts end with it.
const ENTER: &str = r#"
    mount -t proc proc "$0/proc"
    : > "$0/run/docker.sock"
    mount --bind "$1" "$0/run/docker.sock"
    root=$0
    shift
    exec chroot "$root" "$@"
"#;

/// Measures with the package that is named, or the one in `target/dist`.
///
/// # Errors
/// Without root, a package or an engine; if a step fails.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        bail!(unavailable("it needs root, to change the root directory"));
    }
    let package = match options.words.first() {
        Some(file) => PathBuf::from(file),
        None => package(&layout.target.join("dist"))?,
    };
    let debian = minbase::fresh(layout)?;
    let (socket, _engine) = engine(layout)?;
    let dir = layout.backends().join("first-minutes");
    clear_dir(&dir)?;
    let root = dir.join("root");
    let copied = Command::new("cp").arg("-a").args([&debian, &root]).status();
    ensure!(copied?.success(), "could not copy {}", debian.display());
    let fresh = Fresh { root, socket };
    let result = fresh.measure(&package);
    fs::remove_dir_all(&dir)?;
    let total = result?;
    let is_quick = total <= MAX_TIME;
    let verdict = if is_quick { "ok" } else { "FAIL" };
    print_as!(
        WHO,
        "{verdict}    {:.1} s from the package to the first result, at most {} s",
        total.as_secs_f64(),
        MAX_TIME.as_secs()
    );
    Ok(exit_code(is_quick))
}

/// Returns the package of this machine: of Debian, or else the archive.
fn package(dist: &Path) -> anyhow::Result<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let debian = format!("_{arch}.deb");
    let archive = format!("{}-unknown-linux-gnu.tar.gz", std::env::consts::ARCH);
    for end in [debian, archive] {
        for entry in fs::read_dir(dist).into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(PROGRAM) && name.ends_with(&end) {
                return Ok(entry.path());
            }
        }
    }
    bail!(
        "{} has no package of {PROGRAM}: run `cargo xtask package` before",
        dist.display()
    )
}

/// Returns the socket of this machine's engine, or of one that is started.
fn engine(layout: &Layout) -> anyhow::Result<(PathBuf, Option<Engine>)> {
    let named = std::env::var("DOCKER_HOST").ok();
    let named = named
        .as_deref()
        .and_then(|host| host.strip_prefix("unix://"));
    let found = PathBuf::from(named.unwrap_or(SOCKET));
    if docker::answers(&found) {
        return Ok((found, None));
    }
    let instance = Instance::lock(layout, "docker", Purpose::Test, 0)?;
    docker::DOCKER.install(layout)?;
    let process = docker::DOCKER.start(layout, &instance)?;
    let socket = docker::socket(&instance);
    Ok((socket, Some((process, instance))))
}

/// An engine, which ends before its folder is unlocked.
type Engine = (Process, Instance);

/// A Debian with nothing but its base system, and an engine.
struct Fresh {
    root: PathBuf,
    socket: PathBuf,
}

impl Fresh {
    /// Makes all steps, and returns the time of them together.
    fn measure(&self, package: &Path) -> anyhow::Result<Duration> {
        let name = package.file_name().context("no file")?.to_string_lossy();
        let home = self.root.join(HOME.trim_start_matches('/'));
        create_dir(&home)?;
        fs::copy(package, home.join(&*name)).with_context(|| package.display().to_string())?;
        let file = format!("{HOME}/{name}");
        let install = match name.ends_with(".deb") {
            true => format!("dpkg -i {file}"),
            false => format!(
                "tar -xzf {file} -C /usr/local/bin --strip-components=1 --wildcards */{PROGRAM}"
            ),
        };
        let mut total = Duration::ZERO;
        for line in [install, format!("{PROGRAM} connect claude-code")] {
            total += timed(&line, || self.succeeds(&line))?;
        }
        let entry = self.entry()?;
        total += timed(&format!("the host calls {TOOL}"), || self.call(&entry))?;
        Ok(total)
    }

    /// Creates a command in it, with the environment of a new login.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", ENTER])
            .args([&self.root, &self.socket])
            .args(words)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", HOME)
            .current_dir("/");
        command
    }

    fn succeeds(&self, line: &str) -> anyhow::Result<()> {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let output = self.command(&words).stdin(Stdio::null()).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        ensure!(output.status.success(), "{line}: {}", text.trim_end());
        Ok(())
    }

    /// Returns the command and the variables of the entry that was written for Claude Code.
    fn entry(&self) -> anyhow::Result<Value> {
        let file = self.root.join(HOME.trim_start_matches('/'));
        let file = file.join(".claude.json");
        let file = File::open(&file).with_context(|| file.display().to_string())?;
        let config: Value = serde_json::from_reader(file)?;
        let servers = config["mcpServers"].as_object().context("no servers")?;
        let entry = servers.values().next().context("no server")?;
        Ok(entry.clone())
    }

    /// Starts the server of an entry as the host does, and calls a tool.
    fn call(&self, entry: &Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut words = vec![text(&entry["command"])];
        words.extend(entry["args"].as_array().into_iter().flatten().map(text));
        let env = entry["env"].as_object().into_iter().flatten();
        let mut child = self
            .command(&words)
            .envs(env.map(|(name, value)| (name, text(value))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let client = json!({"name": "first-minutes", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        for message in [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": TOOL, "arguments": {}}}),
        ] {
            writeln!(stdin, "{message}")?;
        }
        let mut result = None;
        for line in BufReader::new(stdout).lines() {
            let message: Value = serde_json::from_str(&line?)?;
            if message["id"] == 1 {
                result = Some(message);
                break;
            }
        }
        drop(stdin);
        child.wait()?;
        let result = result.context("the server ended before it answered")?;
        let is_good = result["result"]["isError"] == false;
        ensure!(is_good, "{TOOL} failed: {result}");
        Ok(())
    }
}

/// Makes a step and prints its time.
fn timed(what: &str, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    step()?;
    let time = started.elapsed();
    print_as!(WHO, "{:>5.1} s  {what}", time.as_secs_f64());
    Ok(time)
}
