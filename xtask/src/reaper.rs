//! `xtask reaper`: a process between xtask and each of its children.
//!
//! The reaper reads from a pipe whose other end only its parent has. When the parent closes it, or is
//! killed, the reaper ends the child's whole process group: SIGTERM first, SIGKILL after the grace
//! period. So no child outlives xtask, without `unsafe` and without a thread that must stay alive.
//!
//! A process can leave its group, as a terminal multiplexer does. It is found by a mark in its
//! environment, which it inherits. So are the children of a reaper that was killed itself: a mark that
//! is the path of an instance's folder is known to the next run. This needs `/proc`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The first argument of this program that makes it a reaper.
pub(crate) const COMMAND: &str = "reaper";

/// The environment variable with the mark.
pub(crate) const MARK: &str = "XTASK_CHILD_OF";

/// Time from SIGTERM to SIGKILL. A Docker Engine gives its containers ten seconds before it ends.
const TERMINATION_GRACE: Duration = Duration::from_secs(25);

/// The same for processes outside of the group, after the group has ended.
const STRAY_GRACE: Duration = Duration::from_secs(1);

enum Event {
    StopRequested,
    Exited(io::Result<ExitStatus>),
}

/// Runs `PROGRAM ARGS…` to its end. The mark is in the environment.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let program = args.next().context("the reaper needs a program")?;
    let mark = std::env::var_os(MARK).context("the reaper needs a mark")?;
    let mut child = Command::new(&program)
        .args(args)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("could not start {}", program.display()))?;
    let group = Pid::from_raw(i32::try_from(child.id())?);

    let (events, received) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let on_signal = events.clone();
    thread::spawn(move || {
        let mut signals = signals.forever();
        signals.try_for_each(|_| on_signal.send(Event::StopRequested))
    });
    let on_parent = events.clone();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        on_parent.send(Event::StopRequested)
    });
    thread::spawn(move || events.send(Event::Exited(child.wait())));

    let status = supervise(group, &received);
    // The leader has ended; end the rest of its group, and the processes that have left it.
    let _ = killpg(group, Signal::SIGKILL);
    end_marked(&mark, STRAY_GRACE);
    let status = status?;
    let signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(signal).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn supervise(group: Pid, events: &Receiver<Event>) -> anyhow::Result<ExitStatus> {
    if let Event::Exited(status) = events.recv()? {
        return Ok(status?);
    }
    let _ = killpg(group, Signal::SIGTERM);
    loop {
        match events.recv_timeout(TERMINATION_GRACE) {
            Ok(Event::Exited(status)) => return Ok(status?),
            // A second request changes nothing.
            Ok(Event::StopRequested) => {}
            Err(RecvTimeoutError::Timeout) => {
                let _ = killpg(group, Signal::SIGKILL);
            }
            Err(RecvTimeoutError::Disconnected) => bail!("lost track of the child"),
        }
    }
}

/// Ends the processes with this mark that an earlier, killed run has left; returns true if there were
/// any.
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
        thread::sleep(Duration::from_millis(50));
    }
    send(Signal::SIGKILL);
    true
}

/// Returns all other processes with this mark.
pub(crate) fn marked(mark: &OsStr) -> Vec<Pid> {
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
}
