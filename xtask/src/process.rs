//! Child processes. Each has a reaper as its parent ([`crate::reaper`]), so that none is left behind.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::unistd::Pid;

use crate::console::{self, Heartbeat};
use crate::reaper::{self, MARK};
use crate::shutdown::Shutdown;

/// A program to start; it inherits the environment of this process.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    mark: OsString,
}

impl Program {
    /// Creates the program with a reaper and a unique mark.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> io::Result<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(own_executable()?);
        command
            .arg0("xtask")
            .arg(reaper::COMMAND)
            .arg(program)
            // Not in the terminal's group: Ctrl-C reaches xtask, which decides the order.
            .process_group(0)
            .stdin(Stdio::piped());
        let mark = format!("{}.{number}", std::process::id()).into();
        Ok(Self { command, mark })
    }

    /// Marks it and its children for a later run: [`reaper::end_leftovers`].
    pub(crate) fn marked(mut self, mark: impl Into<OsString>) -> Self {
        self.mark = mark.into();
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds arguments, separated by spaces.
    pub(crate) fn words(self, line: &str) -> Self {
        self.args(line.split_whitespace())
    }

    pub(crate) fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.command.envs(vars);
        self
    }

    pub(crate) fn without<S: AsRef<OsStr>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        for name in names {
            self.command.env_remove(name);
        }
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Appends all output to a file.
    pub(crate) fn log_to(mut self, log: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("could not write {}", log.display()))?;
        self.command.stderr(file.try_clone()?).stdout(file);
        Ok(self)
    }

    pub(crate) fn spawn(mut self) -> anyhow::Result<Process> {
        let child = self.command.env(MARK, &self.mark).spawn();
        let mut child = child.context("could not start a child process")?;
        Ok(Process {
            stdin: child.stdin.take(),
            child,
            mark: self.mark,
        })
    }

    /// Starts it and copies its output to the terminal, each line with a prefix.
    pub(crate) fn spawn_shown(mut self, who: &'static str) -> anyhow::Result<Process> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = self.spawn()?;
        if let Some(out) = process.child.stdout.take() {
            console::copy_lines(who, out);
        }
        if let Some(err) = process.child.stderr.take() {
            console::copy_lines(who, err);
        }
        Ok(process)
    }

    /// Runs it to its end and returns true if it succeeded. A shutdown stops it.
    pub(crate) fn succeeds(
        self,
        shutdown: &Shutdown,
        mut heartbeat: Option<Heartbeat>,
    ) -> anyhow::Result<bool> {
        let mut process = self.spawn()?;
        let mut status = None;
        while !shutdown.wait_until(Duration::from_secs(1), || {
            status = process.child.try_wait().transpose();
            status.is_some()
        }) {
            if shutdown.requested() {
                heartbeat.iter_mut().for_each(Heartbeat::stopped);
                bail!("stopped");
            }
            if let Some(heartbeat) = &mut heartbeat {
                heartbeat.beat();
            }
        }
        let has_succeeded = status.context("no exit status")??.success();
        if has_succeeded && let Some(heartbeat) = &mut heartbeat {
            heartbeat.succeeded();
        }
        Ok(has_succeeded)
    }

    /// Runs it to its end with a line now and then.
    ///
    /// # Errors
    /// Unless it succeeds.
    pub(crate) fn run(self, shutdown: &Shutdown, heartbeat: Heartbeat) -> anyhow::Result<()> {
        if !self.succeeds(shutdown, Some(heartbeat))? {
            bail!("failed");
        }
        Ok(())
    }
}

/// A running child. Dropping it stops its whole process group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The reaper stops the child when this pipe is closed.
    stdin: Option<ChildStdin>,
    mark: OsString,
}

impl Process {
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the process id of the program, not that of its reaper.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let reaper = i32::try_from(self.child.id()).ok();
        let mut pids = reaper::marked(&self.mark).into_iter();
        pids.find(|pid| Some(pid.as_raw()) != reaper)
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// When it ends or takes too long, with the last line of its log.
    pub(crate) fn wait_ready(
        &mut self,
        shutdown: &Shutdown,
        log: &Path,
        timeout: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let mut ended = false;
        let is_up = shutdown.wait_until(timeout, || {
            ended = self.ended();
            ended || ready()
        });
        match (is_up, ended) {
            (true, false) => Ok(()),
            (_, true) => bail!("it ended while starting: {}", last_line(log)),
            _ if shutdown.requested() => bail!("stopped"),
            _ => bail!(
                "not ready within {} s: {}",
                timeout.as_secs(),
                last_line(log)
            ),
        }
    }

    /// Asks it to end without waiting, so that several can end at the same time.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.stdin.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ask_to_end();
        let _ = self.child.wait();
    }
}

/// Returns the last line of a log that is not blank.
pub(crate) fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty());
    last.unwrap_or("its log is empty").to_owned()
}

/// Returns the path of this program, also if a build has replaced the file since its start.
fn own_executable() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        Ok(running.to_owned())
    } else {
        std::env::current_exe()
    }
}
