//! Child processes, each in a process group of its own, so that Ctrl-C reaches xtask alone, which decides the order of
//! their ends.
//!
//! A process that leaves its group, as a terminal multiplexer does, is found by a mark in its environment, which it
//! inherits. So are the children of a killed run: the next one knows their mark, the path of an instance's folder. This
//! needs `/proc`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::console::{self, Heartbeat};
use crate::{layout, shutdown};

/// The environment variable with the mark.
const MARK: &str = "XTASK_CHILD_OF";

/// Time from SIGTERM to SIGKILL. A Docker Engine gives its containers ten seconds before it ends.
const TERMINATION_GRACE: Duration = Duration::from_secs(25);

/// The same for processes outside of the group, after the group has ended.
const STRAY_GRACE: Duration = Duration::from_secs(1);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A program to start; it inherits the environment of this process.
pub(crate) struct Program {
    command: Command,
    mark: OsString,
}

impl Program {
    /// Creates the program with a unique mark.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(program);
        command.process_group(0).stdin(Stdio::null());
        let mark = format!("{}.{number}", std::process::id()).into();
        Self { command, mark }
    }

    pub(crate) fn cargo(words: &str) -> Self {
        Self::new("cargo").words(words).dir(layout::root())
    }

    /// Marks it and its children for a later run: [`end_leftovers`].
    pub(crate) fn marked(mut self, mark: impl Into<OsString>) -> Self {
        self.mark = mark.into();
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn option(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.args([name.as_ref(), value.as_ref()])
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
    pub(crate) fn log_to(mut self, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("could not write {}", log.display()))?;
        self.command.stderr(file.try_clone()?).stdout(file);
        Ok(self)
    }

    pub(crate) fn spawn(mut self) -> Result<Process> {
        let child = self.command.env(MARK, &self.mark).spawn();
        let name = || format!("could not start {}", self.command.get_program().display());
        let child = child.with_context(name)?;
        Ok(Process {
            pid: Pid::from_raw(i32::try_from(child.id())?),
            child,
            mark: self.mark,
            is_over: false,
            is_stopped: false,
        })
    }

    /// Starts it and copies its output to the terminal, each line with a prefix.
    pub(crate) fn spawn_shown(mut self, who: &'static str) -> Result<Process> {
        let (output, pipe) = io::pipe()?;
        self.command.stdout(pipe.try_clone()?).stderr(pipe);
        let process = self.spawn()?;
        console::copy_lines(who, output);
        Ok(process)
    }

    /// Runs it to its end and returns true if it succeeded. A shutdown stops it.
    pub(crate) fn succeeds(self, mut heartbeat: Option<Heartbeat>) -> Result<bool> {
        let mut process = self.spawn()?;
        let mut status = None;
        while !shutdown::wait_until(Duration::from_secs(1), || {
            status = process.child.try_wait().transpose();
            status.is_some()
        }) {
            if shutdown::requested() {
                heartbeat.iter_mut().for_each(Heartbeat::stopped);
                bail!("stopped");
            }
            heartbeat.iter_mut().for_each(Heartbeat::beat);
        }
        let has_succeeded = status.context("no exit status")??.success();
        if has_succeeded {
            heartbeat.iter_mut().for_each(Heartbeat::succeeded);
        }
        Ok(has_succeeded)
    }

    /// The same, with its output in a new log of this name.
    pub(crate) fn logged(self, name: &str, heartbeat: Option<Heartbeat>) -> Result<Ended> {
        let log = layout::fresh_log(name)?;
        let has_succeeded = self.log_to(&log)?.succeeds(heartbeat)?;
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok(Ended {
            has_succeeded,
            output,
            log,
        })
    }

    /// Runs it to its end, with its output appended to this log, whose last line is in the error if it fails.
    pub(crate) fn run(self, heartbeat: Heartbeat, log: &Path) -> Result<()> {
        let step = heartbeat.step.clone();
        if !self.log_to(log)?.succeeds(Some(heartbeat))? {
            bail!("{step}: {} (log: {})", last_line(log), log.display());
        }
        Ok(())
    }
}

/// The result of a child that has run to its end.
pub(crate) struct Ended {
    pub(crate) has_succeeded: bool,
    pub(crate) output: String,
    pub(crate) log: PathBuf,
}

/// A running child. Dropping it stops its whole process group.
pub(crate) struct Process {
    child: Child,
    pub(crate) pid: Pid,
    mark: OsString,
    is_over: bool,
    /// Its group and what has left that have ended, too: another process may have the same mark from now on.
    is_stopped: bool,
}

impl Process {
    pub(crate) fn ended(&mut self) -> bool {
        if !self.is_over && !matches!(self.child.try_wait(), Ok(None)) {
            self.is_over = true;
            // The rest of its group, while no other group can have its number.
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
        self.is_over
    }

    /// Waits until it is ready; errors with the last line of its log when it ends or takes too long.
    pub(crate) fn wait_ready(
        &mut self,
        log: &Path,
        timeout: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let mut ended = false;
        let is_up = shutdown::wait_until(timeout, || {
            ended = self.ended();
            ended || ready()
        });
        let (seconds, line) = (timeout.as_secs(), || last_line(log));
        match (is_up, ended) {
            (true, false) => Ok(()),
            (_, true) => bail!("it ended while starting: {}", line()),
            _ if shutdown::requested() => bail!("stopped"),
            _ => bail!("not ready within {seconds} s: {}", line()),
        }
    }

    /// Asks it to end without waiting, so that several can end at the same time.
    pub(crate) fn ask_to_end(&mut self) {
        if !self.ended() {
            let _ = killpg(self.pid, Signal::SIGTERM);
        }
    }

    pub(crate) fn stop(&mut self) {
        if mem::replace(&mut self.is_stopped, true) {
            return;
        }
        self.ask_to_end();
        let end = Instant::now() + TERMINATION_GRACE;
        while !self.ended() {
            if Instant::now() > end {
                let _ = killpg(self.pid, Signal::SIGKILL);
            }
            thread::sleep(POLL_INTERVAL);
        }
        // The processes that have left its group.
        end_marked(&self.mark, STRAY_GRACE);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends the processes with this mark that a killed run has left; returns true if there were any.
pub(crate) fn end_leftovers(mark: &OsStr) -> bool {
    end_marked(mark, TERMINATION_GRACE)
}

/// Ends all other processes with this mark: SIGTERM, then SIGKILL after the grace period.
fn end_marked(mark: &OsStr, grace: Duration) -> bool {
    let send = |signal| {
        for pid in marked(mark) {
            let _ = kill(pid, signal);
        }
    };
    if marked(mark).is_empty() {
        return false;
    }
    send(Signal::SIGTERM);
    let end = Instant::now() + grace;
    while Instant::now() < end && !marked(mark).is_empty() {
        thread::sleep(POLL_INTERVAL);
    }
    send(Signal::SIGKILL);
    true
}

/// Returns all other processes with this mark.
fn marked(mark: &OsStr) -> Vec<Pid> {
    let wanted = [MARK.as_bytes(), b"=", mark.as_bytes()].concat();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = numbers.map(Pid::from_raw).filter(|pid| *pid != Pid::this());
    others.filter(|pid| is_marked(*pid, &wanted)).collect()
}

fn is_marked(pid: Pid, wanted: &[u8]) -> bool {
    let file = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let is_marked = file("environ")
        .split(|byte| *byte == 0)
        .any(|variable| variable == wanted);
    // A shim holds a container; an engine finds it at its next start, and ends both.
    is_marked && !file("comm").starts_with(b"containerd-shim")
}

/// Runs a short program that must succeed, and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {error}{text}", output.status);
    Ok(text)
}

pub(crate) fn is_root() -> bool {
    // The folder of this process in /proc belongs to its user.
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Returns the last line of a log that is not blank.
pub(crate) fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty());
    last.unwrap_or("its log is empty").to_owned()
}

/// Does the work for all items at the same time; returns the results in the order of the items.
pub(crate) fn in_parallel<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |item| scope.spawn(move || work(item));
        let threads: Vec<_> = items.iter().map(start).collect();
        let panicked = |_| Err(anyhow!("it panicked"));
        let results = threads.into_iter().map(|thread| thread.join());
        results
            .map(|result| result.unwrap_or_else(panicked))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_with_the_mark_are_ended() {
        let sleeper = |mark: &str| {
            let mut sleep = Command::new("sleep");
            sleep.arg("600").env(MARK, mark).stdin(Stdio::null());
            sleep.spawn().unwrap()
        };
        let mark = format!("test-{}", std::process::id());
        let mut marked = sleeper(&mark);
        let mut other = sleeper(&format!("{mark}-other"));
        assert!(end_leftovers(OsStr::new(&mark)));
        assert!(!marked.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        assert!(!end_leftovers(OsStr::new(&mark)));
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// An installing thread that panics must not be taken for one that has installed.
    #[test]
    fn panic_of_one_is_its_failure() {
        let work = |number: &u32| match number {
            2 => panic!("on purpose"),
            _ => Ok(*number),
        };
        let results = in_parallel(&[1, 2, 3], work);
        let results: Vec<_> = results.into_iter().map(Result::ok).collect();
        assert_eq!(results, [Some(1), None, Some(3)]);
    }
}
