//! `xtask guard`: stands between this program and each of its children.
//!
//! The guard holds the read end of a pipe whose write end only its parent has. When
//! the parent closes it, or dies in whatever way, the guard ends the child's whole
//! process group: SIGTERM first, SIGKILL when the grace period is over. So nothing that
//! xtask started outlives it, without `unsafe` and without a thread to keep alive.
//!
//! Processes that leave their group, as a terminal multiplexer does, are found by a mark in the
//! environment that they inherit. So is what a guard left behind that was itself killed: a mark that
//! is the path of a folder is known to the next run. Without `/proc` nothing is found.

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

/// The variable of the environment that carries the mark.
pub(crate) const MARK: &str = "XTASK_CHILD_OF";

/// From SIGTERM to SIGKILL. A Docker Engine gives its containers ten seconds before it ends.
const GRACE: Duration = Duration::from_secs(25);

/// The same for what has left its group, when that has ended.
const GRACE_OF_STRAYS: Duration = Duration::from_secs(1);

enum Event {
    Stop,
    Exited(io::Result<ExitStatus>),
}

/// Runs `PROGRAM ARGS…` to its end. The mark is in the environment.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let program = args.next().context("guard needs a program")?;
    let mark = std::env::var_os(MARK).context("guard needs a mark")?;
    let mut child = Command::new(&program)
        .args(args)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("could not start {}", program.display()))?;
    let group = Pid::from_raw(i32::try_from(child.id()).context("odd process id")?);

    let (events, received) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let on_signal = events.clone();
    thread::spawn(move || {
        signals
            .forever()
            .try_for_each(|_| on_signal.send(Event::Stop))
    });
    let on_parent = events.clone();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        on_parent.send(Event::Stop)
    });
    thread::spawn(move || events.send(Event::Exited(child.wait())));

    let status = supervise(group, &received);
    // The leader is gone; what it left behind goes with it, in its group or out of it.
    let _ = killpg(group, Signal::SIGKILL);
    sweep(&mark, GRACE_OF_STRAYS);
    let status = status?;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn supervise(group: Pid, events: &Receiver<Event>) -> anyhow::Result<ExitStatus> {
    if let Event::Exited(status) = events.recv()? {
        return Ok(status?);
    }
    let _ = killpg(group, Signal::SIGTERM);
    loop {
        match events.recv_timeout(GRACE) {
            Ok(Event::Exited(status)) => return Ok(status?),
            // More than one reason to stop is still one stop.
            Ok(Event::Stop) => {}
            Err(RecvTimeoutError::Timeout) => {
                let _ = killpg(group, Signal::SIGKILL);
            }
            Err(RecvTimeoutError::Disconnected) => bail!("lost sight of the child"),
        }
    }
}

/// Ends what an earlier, killed run left running under this mark; true when there was something.
pub(crate) fn end_leftover(mark: &OsStr) -> bool {
    sweep(mark, GRACE)
}

/// Ends every other process with this mark, gently and then not; true when there was one.
fn sweep(mark: &OsStr, grace: Duration) -> bool {
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

/// The other processes with this mark.
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
    // These hold containers; an engine finds them when it starts again, and ends both.
    is_marked && !file("comm").starts_with(b"containerd-shim")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_what_carries_the_mark_and_nothing_else() {
        let sleeper = |mark: &str| {
            let mut sleep = Command::new("sleep");
            sleep
                .arg("600")
                .env(MARK, mark)
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        let own = format!("test-{}", std::process::id());
        let mut swept = sleeper(&own);
        let mut other = sleeper(&format!("{own}-other"));
        assert!(sweep(OsStr::new(&own), GRACE));
        assert!(!swept.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        assert!(!sweep(OsStr::new(&own), GRACE));
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
