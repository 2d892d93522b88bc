//! Children: started behind a guard (see [`crate::guard`]), never left behind.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::console::Heartbeat;
use crate::stop::Stop;

/// How long a child has between SIGTERM and SIGKILL, unless told otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(12);

/// What to start; the environment of this process is passed on.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
}

impl Program {
    /// The program with the usual grace and no pid file.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> io::Result<Self> {
        Self::guarded(program, GRACE, None)
    }

    /// The program with its own grace, its process id noted in a file while it runs.
    pub(crate) fn guarded(
        program: impl AsRef<OsStr>,
        grace: Duration,
        pid_file: Option<&Path>,
    ) -> io::Result<Self> {
        let mut command = Command::new(own_executable()?);
        command
            .arg0("xtask")
            .arg("guard")
            .arg(grace.as_secs().to_string())
            .arg(pid_file.map_or(OsStr::new("-"), Path::as_os_str))
            .arg(program)
            // Out of the terminal's group: Ctrl-C reaches xtask, which decides the order.
            .process_group(0)
            .stdin(Stdio::piped());
        Ok(Self { command })
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets variables of the environment.
    pub(crate) fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.command.envs(vars);
        self
    }

    /// Takes a variable out of the environment.
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
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

    /// Hands the output over for following; see [`Process::outputs`].
    pub(crate) fn piped(mut self) -> Self {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self
    }

    /// Starts it.
    pub(crate) fn spawn(mut self) -> anyhow::Result<Process> {
        let mut child = self
            .command
            .spawn()
            .context("could not start a child process")?;
        let lifeline = child.stdin.take();
        Ok(Process { child, lifeline })
    }

    /// Runs it to its end with a line now and then; an error unless it succeeded.
    pub(crate) fn run(self, stop: &Stop, beat: &mut Heartbeat) -> anyhow::Result<()> {
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
}

impl Process {
    /// Its standard output and error, when [`Program::piped`] asked for them.
    pub(crate) fn outputs(&mut self) -> impl Iterator<Item = Box<dyn Read + Send>> {
        let out = self
            .child
            .stdout
            .take()
            .map(|out| Box::new(out) as Box<dyn Read + Send>);
        let err = self
            .child
            .stderr
            .take()
            .map(|err| Box::new(err) as Box<dyn Read + Send>);
        out.into_iter().chain(err)
    }

    /// True once it has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
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

/// This very program, even when a build has replaced the file meanwhile.
fn own_executable() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        Ok(running.to_owned())
    } else {
        std::env::current_exe()
    }
}
