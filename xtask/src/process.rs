//! Children: started behind a guard (see [`crate::guard`]), never left behind.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::unistd::Pid;

use crate::console::{self, Heartbeat};
use crate::guard::{MARK, marked};
use crate::stop::Stop;

/// What to start; the environment of this process is passed on.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    mark: OsString,
}

impl Program {
    /// The program behind a guard, with a mark that no other has.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> io::Result<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(own_executable()?);
        command
            .arg0("xtask")
            .arg("guard")
            .arg(program)
            // Out of the terminal's group: Ctrl-C reaches xtask, which decides the order.
            .process_group(0)
            .stdin(Stdio::piped());
        let mark = format!("{}.{number}", std::process::id()).into();
        Ok(Self { command, mark })
    }

    /// Marks it and its children with what a later run knows: [`crate::guard::end_leftover`].
    pub(crate) fn marked(mut self, mark: impl Into<OsString>) -> Self {
        self.mark = mark.into();
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds arguments that are written in one line; there is no way to quote a space.
    pub(crate) fn words(self, line: &str) -> Self {
        self.args(line.split_whitespace())
    }

    /// Sets variables of the environment.
    pub(crate) fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.command.envs(vars);
        self
    }

    /// Takes variables out of the environment.
    pub(crate) fn without<S: AsRef<OsStr>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        for name in names {
            self.command.env_remove(name);
        }
        self
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Appends all output to a file.
    pub(crate) fn log_to(mut self, log: &Path) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("could not write {}", log.display()))?;
        self.command.stderr(file.try_clone()?).stdout(file);
        Ok(self)
    }

    /// Starts it.
    pub(crate) fn spawn(mut self) -> anyhow::Result<Process> {
        let mut child = self
            .command
            .env(MARK, &self.mark)
            .spawn()
            .context("could not start a child process")?;
        let lifeline = child.stdin.take();
        Ok(Process {
            child,
            lifeline,
            mark: self.mark,
        })
    }

    /// Starts it; its output goes to the terminal, each line with a prefix.
    pub(crate) fn spawn_shown(mut self, who: &'static str) -> anyhow::Result<Process> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = self.spawn()?;
        if let Some(out) = process.child.stdout.take() {
            console::follow(who, out);
        }
        if let Some(err) = process.child.stderr.take() {
            console::follow(who, err);
        }
        Ok(process)
    }

    /// Runs it to its end with a line now and then; an error unless it succeeded.
    pub(crate) fn run(self, stop: &Stop, mut beat: Heartbeat) -> anyhow::Result<()> {
        let status = self.spawn()?.wait(stop, || beat.beat())?;
        if !status.success() {
            bail!("failed ({status})");
        }
        Ok(())
    }
}

/// A running child. Dropping it stops it and all of its process group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lifeline: Option<ChildStdin>,
    mark: OsString,
}

impl Process {
    /// Returns true once it has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the process id of the program, not that of its guard.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let guard = i32::try_from(self.child.id()).ok();
        let pids = marked(&self.mark).into_iter();
        pids.into_iter().find(|pid| Some(pid.as_raw()) != guard)
    }

    /// Waits for its end; stops it when somebody asked this program to stop.
    pub(crate) fn wait(
        mut self,
        stop: &Stop,
        mut beat: impl FnMut(),
    ) -> anyhow::Result<ExitStatus> {
        let mut status = None;
        while !stop.wait_until(Duration::from_secs(1), || {
            status = self.child.try_wait().transpose();
            status.is_some()
        }) {
            if stop.requested() {
                bail!("stopped");
            }
            beat();
        }
        Ok(status.context("no exit status")??)
    }

    /// Waits until it is ready; an error with what it logged last when it ends or takes too long.
    pub(crate) fn wait_ready(
        &mut self,
        stop: &Stop,
        log: &Path,
        limit: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let mut ended = false;
        let up = stop.wait_until(limit, || {
            ended = self.ended();
            ended || ready()
        });
        match (up, ended) {
            (true, false) => Ok(()),
            (_, true) => bail!("it ended while starting: {}", last_line(log)),
            _ if stop.requested() => bail!("stopped"),
            _ => bail!("not ready within {} s: {}", limit.as_secs(), last_line(log)),
        }
    }

    /// Asks it to end without waiting, so that several can end side by side.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.lifeline.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ask_to_end();
        let _ = self.child.wait();
    }
}

/// Returns the last line of a log that says something.
pub(crate) fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty());
    last.unwrap_or("its log is empty").to_owned()
}

/// Returns the path of this very program, even when a build has replaced the file meanwhile.
fn own_executable() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        Ok(running.to_owned())
    } else {
        std::env::current_exe()
    }
}
