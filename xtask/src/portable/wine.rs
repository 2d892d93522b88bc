//! A wine in which the checks use Windows programs.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::chroot::{Chroot, WORKSPACE};
use crate::layout::create_dir;
use crate::process::{Process, Program};
use crate::test_server::{self, NO_SERVICES, RunningServer};

/// msvc cannot be had on Linux.
pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";

/// The folder for files of the checks, in the Debian and as Windows programs call it. With a space, as folders
/// of users have it.
const FOLDER: &str = "/opt/check/a folder";
pub(super) const WINDOWS_FOLDER: &str = r"Z:\opt\check\a folder";

/// Creates the user's folders, once, and holds wine until it is killed. `wineserver` does not create its own.
const HOLD: &str = "mkdir -p $WINEPREFIX; /usr/lib/*/wine/wineserver --persistent; wineboot --init; \
                    echo ready; exec sleep infinity";
const HOLDER: &str = "sleep infinity";

/// Runs a program in [`FOLDER`]; arguments: the file for its stdout, that for its stdin, and the program.
const RUN: &str = r#"
    cd "$0"; out=$1; in=$2; shift 2; code=0
    "$@" > "$out" < "$in" || code=$?
    echo "exit code $code" >&2
"#;

/// Timeout of wine's start; the first time it creates the folders of the user.
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// Timeout of a program that starts, answers and ends.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of a program's log that are shown at a failure.
const SHOWN_LINES: usize = 30;

/// A running wine. Dropping it ends all that runs in it.
pub(super) struct Wine<'a> {
    pub(super) chroot: &'a Chroot<'a>,
    _holder: Process,
    /// A process in the namespaces of wine.
    inside: Pid,
    started: Cell<usize>,
    /// The logs of the programs of the check that runs.
    logs: RefCell<Vec<PathBuf>>,
}

/// A program to start.
#[derive(Clone, Copy, Default)]
pub(super) struct Command<'a> {
    pub(super) program: &'a str,
    pub(super) args: &'a [&'a str],
    pub(super) env: &'a [(&'a str, &'a str)],
    pub(super) stdin: Option<&'a str>,
}

/// The output of a program, and its exit code.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) log: String,
}

impl Output {
    /// Returns stdout of a program that has succeeded.
    pub(super) fn success(self) -> anyhow::Result<String> {
        ensure!(self.code == 0, "exit code {}", self.code);
        Ok(self.stdout)
    }
}

impl<'a> Wine<'a> {
    /// Starts wine, without a program.
    pub(super) fn start(chroot: &'a Chroot<'a>) -> anyhow::Result<Self> {
        let log = chroot.layout.fresh_log("portable-wine")?;
        let mut holder = chroot.program(HOLD)?.log_to(&log)?.spawn()?;
        let is_ready = || fs::read_to_string(&log).is_ok_and(|log| log.contains("ready"));
        holder.wait_ready(&chroot.layout.shutdown, &log, START_TIMEOUT, is_ready)?;
        let inside = processes(chroot, |command| command == HOLDER);
        Ok(Self {
            chroot,
            inside: *inside.first().context("wine has gone")?,
            _holder: holder,
            started: Cell::default(),
            logs: RefCell::default(),
        })
    }

    /// Makes a check in an empty folder. An error has the logs of the check's programs; whatever still runs is
    /// killed.
    pub(super) fn check(
        &self,
        check: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.logs.borrow_mut().clear();
        let folder = self.chroot.file(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        create_dir(&folder)?;
        let result = check(self);
        for left in self.processes(".exe") {
            // It may be gone by now.
            let _ = kill(left, Signal::SIGKILL);
        }
        result.map_err(|error| {
            let logs = self.logs.borrow();
            let logs: String = logs.iter().map(|log| tail(self.chroot, log)).collect();
            anyhow!("{error:#}{logs}")
        })
    }

    /// Writes a file for the check, with the line ends of Windows.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let text = text.replace('\n', "\r\n");
        Ok(fs::write(self.chroot.file(FOLDER).join(name), text)?)
    }

    /// Reads a file of the check.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<String> {
        let text = fs::read_to_string(self.chroot.file(FOLDER).join(name));
        text.with_context(|| name.to_owned())
    }

    /// Runs a program to its end.
    pub(super) fn run(&self, command: Command<'_>) -> anyhow::Result<Output> {
        let (program, out, log) = self.program(command)?;
        let process = program.log_to(&log)?.spawn()?;
        let mut started = Started { process, log };
        Ok(Output {
            code: started.wait(self)?,
            stdout: self.read(&out)?,
            log: started.log(),
        })
    }

    /// Runs a script of `sh` in the Debian, in the folder of the check.
    pub(super) fn shell(&self, script: &str) -> anyhow::Result<()> {
        let log = self.log("shell")?;
        let program = self.inside(&["sh", "-ec", &format!("cd '{FOLDER}'; {script}")])?;
        let shutdown = &self.chroot.layout.shutdown;
        ensure!(
            program.log_to(&log)?.succeeds(shutdown, None)?,
            "it has failed"
        );
        Ok(())
    }

    /// Starts a program that goes on.
    pub(super) fn spawn(&self, command: Command<'_>) -> anyhow::Result<Started> {
        let (program, _, log) = self.program(command)?;
        let process = program.log_to(&log)?.spawn()?;
        Ok(Started { process, log })
    }

    /// Starts a server on a free port and waits until it listens. Returns it with its port.
    pub(super) fn serve(
        &self,
        program: &str,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> anyhow::Result<(Started, u16)> {
        let args = [&["--port", "0", "--log", "info"][..], args].concat();
        let args = &*args;
        let command = Command {
            program,
            args,
            env,
            stdin: None,
        };
        let (started, _, log) = self.program(command)?;
        // The log of a gateway also has the lines of its backends.
        let own = format!("mcp_serve::run: {program} ");
        let listens_on = |log: &str| test_server::listens_on(log.split_once(&own)?.1);
        let RunningServer { port, process } =
            test_server::listen(self.chroot.layout, started, &log, listens_on)?;
        Ok((Started { process, log }, port))
    }

    /// Polls `done`; returns true if it was true in time.
    pub(super) fn wait_until(&self, done: impl FnMut() -> bool) -> bool {
        let shutdown = &self.chroot.layout.shutdown;
        shutdown.wait_until(RUN_TIMEOUT, done)
    }

    /// Returns the processes of a Windows program.
    pub(super) fn processes(&self, program: &str) -> Vec<Pid> {
        // Their names are those of their main threads, and some words of their command lines have spaces.
        processes(self.chroot, |command| {
            let found = command.split_inclusive(".exe").next();
            let is_program = |found: &str| found.ends_with(program) && !is_of_others(found);
            found.is_some_and(is_program)
        })
    }

    /// Creates a program that finds no services, and no servers of this machine. Returns it with the names of
    /// the files for its stdout and its log.
    fn program(&self, command: Command<'_>) -> anyhow::Result<(Program, String, PathBuf)> {
        let log = self.log(command.program)?;
        let (out, input) = (
            format!("out-{}", self.started.get()),
            format!("in-{}", self.started.get()),
        );
        let folder = self.chroot.file(FOLDER);
        fs::write(folder.join(&input), command.stdin.unwrap_or_default())?;
        let built = format!(r"Z:\work\target\{TARGET}\debug");
        let file = match command.program.strip_suffix(".exe") {
            // A program of the check itself.
            Some(_) => command.program.to_owned(),
            None => format!("{WORKSPACE}/target/{TARGET}/debug/{}.exe", command.program),
        };
        let path = format!("{WINDOWS_FOLDER};{built}");
        let backends = match command.args.contains(&"--config") {
            true => "",
            false => "none=http://127.0.0.1:1/mcp",
        };
        let own = [("WINEPATH", &*path), ("MCP_GATEWAY_BACKENDS", backends)];
        let variables = NO_SERVICES.iter().chain(&own).chain(command.env);
        let variables: Vec<_> = variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut words = vec!["sh", "-c", RUN, FOLDER, &out, &input, "env"];
        words.extend(variables.iter().map(String::as_str));
        words.extend(["wine", &file]);
        words.extend(command.args);
        Ok((self.inside(&words)?, out, log))
    }

    fn inside(&self, words: &[&str]) -> anyhow::Result<Program> {
        self.chroot.program_inside(self.inside, words)
    }

    fn log(&self, program: &str) -> anyhow::Result<PathBuf> {
        let number = self.started.get() + 1;
        self.started.set(number);
        let name = format!("portable-{number}-{program}");
        let log = self.chroot.layout.fresh_log(&name)?;
        self.logs.borrow_mut().push(log.clone());
        Ok(log)
    }
}

/// A program that runs. Dropping it ends it.
pub(super) struct Started {
    pub(super) process: Process,
    log: PathBuf,
}

impl Started {
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end, and returns its exit code.
    pub(super) fn wait(&mut self, wine: &Wine<'_>) -> anyhow::Result<i32> {
        let ended = wine.wait_until(|| self.process.ended());
        ensure!(ended, "the program does not end");
        exit_code(&self.log()).context("the program was killed")
    }
}

fn exit_code(log: &str) -> Option<i32> {
    let (_, code) = log.rsplit_once("exit code ")?;
    code.trim().parse().ok()
}

/// True for the programs of wine itself, and for the shell that has started one of ours.
fn is_of_others(command: &str) -> bool {
    command.starts_with("sh ") || command.to_lowercase().contains(r":\windows\")
}

/// The end of a log.
fn tail(chroot: &Chroot<'_>, log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(SHOWN_LINES);
    let shown = chroot.layout.shown(log);
    let lines: String = lines[start..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    format!("\n  {shown}:{lines}")
}

/// Returns the processes in the Debian whose command line is of this form, its words separated by spaces.
fn processes(chroot: &Chroot<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<Pid> {
    let is_ours = |pid: &i32| {
        let process = format!("/proc/{pid}");
        let root = fs::read_link(format!("{process}/root"));
        let command = fs::read(format!("{process}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        root.is_ok_and(|root| root == chroot.root) && is_wanted(command.trim_end())
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_ours).map(Pid::from_raw).collect()
}
