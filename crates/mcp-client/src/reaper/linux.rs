//! The reaper of Linux: a subreaper that watches signals and the pipe to its parent.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, ExitCode};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill, killpg, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdout, getpid, getppid};

use super::{ARGUMENT, EXIT_CANNOT_START, EXIT_GRACE};

/// Grace period after SIGTERM if the parent is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// Interval of checks for the parent after the pipe to it was closed: the pipes of a killed process
/// close a moment before its children get a new parent.
const PARENT_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of waiting for killed processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The second argument, instead of the parent's process id, of the process that becomes the child.
const EXEC_CHILD: &str = "become";

/// Runs the reaper with the arguments after [`ARGUMENT`].
pub(super) fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let outcome = match args.next() {
        Some(first) if first == EXEC_CHILD => exec_child(args),
        Some(parent) => supervise(&parent, args).map(exit_like),
        None => Err(io::ErrorKind::InvalidInput.into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("cannot be started: {error}");
        ExitCode::from(EXIT_CANNOT_START)
    })
}

/// The state of the child.
enum Phase {
    Running,
    /// Its stdin was closed at this time.
    StdinClosed(Instant),
    /// It was sent SIGTERM, and is killed at this time.
    Terminating(Instant),
}

struct ChildReaper {
    parent: Pid,
    child: Pid,
    signals: SignalFd,
    phase: Phase,
}

fn supervise(parent: &OsStr, args: impl Iterator<Item = OsString>) -> io::Result<WaitStatus> {
    let parent = parent.to_str().and_then(|parent| parent.parse().ok());
    let parent = Pid::from_raw(parent.ok_or(io::ErrorKind::InvalidInput)?);
    // Orphaned descendants become our children, in any process group.
    set_child_subreaper(true)?;
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
    let blocked = SigSet::from_iter([SIGCHLD, SIGTERM, SIGINT, SIGHUP]);
    // Before there is a child that could be left behind.
    blocked.thread_block()?;
    let mut child = Command::new("/proc/self/exe");
    child
        .args([ARGUMENT, EXEC_CHILD, &process::id().to_string()])
        .args(args);
    let child = i32::try_from(child.spawn()?.id()).map_err(io::Error::other)?;
    // Only the child may hold these pipes open, for the parent to see when it closes them.
    let nowhere = File::options().write(true).open("/dev/null")?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let reaper = ChildReaper {
        parent,
        child: Pid::from_raw(child),
        signals: SignalFd::with_flags(&blocked, flags)?,
        phase: Phase::Running,
    };
    let status = reaper.watch();
    kill_descendants();
    status
}

/// Resets what the child must not inherit from its reaper, and executes the program. Arguments: the
/// reaper's process id, the program, its arguments.
fn exec_child(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let (Some(reaper), Some(program)) = (args.next(), args.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The child is killed if the reaper is.
    set_pdeathsig(Signal::SIGKILL)?;
    if reaper.to_str() != Some(&getppid().to_string()) {
        return Err(io::Error::other("its reaper has exited"));
    }
    SigSet::all().thread_unblock()?;
    Err(Command::new(program).args(args).exec())
}

impl ChildReaper {
    /// Waits until the child has ended, or must be killed.
    fn watch(mut self) -> io::Result<WaitStatus> {
        loop {
            if let Some(status) = self.reap() {
                return Ok(status);
            }
            let now = Instant::now();
            match self.phase {
                Phase::Running => {}
                Phase::StdinClosed(since) if getppid() != self.parent => {
                    self.terminate(since + ORPHAN_GRACE);
                }
                Phase::StdinClosed(since) if now >= since + EXIT_GRACE => {
                    self.terminate(now + EXIT_GRACE)
                }
                Phase::StdinClosed(_) => {}
                Phase::Terminating(until) if now >= until => return Ok(killed(self.child)),
                Phase::Terminating(_) => {}
            }
            if self.wait()? {
                return Ok(killed(self.child));
            }
        }
    }

    /// Reaps all ended processes, the child and adopted ones. Returns the child's status if it ended.
    fn reap(&self) -> Option<WaitStatus> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return None,
                Ok(status) if status.pid() == Some(self.child) => return Some(status),
                Ok(_) | Err(Errno::EINTR) => {}
                // Its status is lost.
                Err(_) => return Some(killed(self.child)),
            }
        }
    }

    fn terminate(&mut self, until: Instant) {
        // The signal is blocked in this process, which is in the group too.
        let _ = killpg(getpid(), Signal::SIGTERM);
        self.phase = Phase::Terminating(until);
    }

    /// Waits for the next event. Returns true if the parent asks to kill the child now.
    fn wait(&mut self) -> io::Result<bool> {
        let left = match self.phase {
            Phase::Running => None,
            Phase::StdinClosed(_) => Some(PARENT_POLL_INTERVAL),
            Phase::Terminating(until) => Some(until.saturating_duration_since(Instant::now())),
        };
        let left = left.map(|left| PollTimeout::try_from(left + Duration::from_millis(1)));
        let left = left.transpose().map_err(io::Error::other)?;
        let stdin = io::stdin();
        // Its input is the child's. Without requested events poll still reports that it was closed.
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::empty()),
        ];
        let watched = match self.phase {
            Phase::Running => &mut fds[..],
            Phase::StdinClosed(_) | Phase::Terminating(_) => &mut fds[..1],
        };
        match poll(watched, left.unwrap_or(PollTimeout::NONE)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_closed = fds[1].revents().is_some_and(|events| !events.is_empty());
        if is_closed && matches!(self.phase, Phase::Running) {
            self.phase = Phase::StdinClosed(Instant::now());
        }
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let is_ours = signal.ssi_pid == process::id();
            if i32::try_from(signal.ssi_signo) == Ok(Signal::SIGTERM as i32) && !is_ours {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Kills all descendants. When their parents exit, they become our children.
fn kill_descendants() {
    let list = format!("/proc/self/task/{}/children", getpid());
    let until = Instant::now() + KILL_TIMEOUT;
    while Instant::now() < until {
        let Ok(children) = std::fs::read_to_string(&list) else {
            // A kernel without this file: kills at least the group, which includes this process.
            let _ = killpg(getpid(), Signal::SIGKILL);
            return;
        };
        for child in children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
        {
            let _ = kill(Pid::from_raw(child), Signal::SIGKILL);
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Err(Errno::ECHILD) => return,
                _ => {}
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed(child: Pid) -> WaitStatus {
    WaitStatus::Signaled(child, Signal::SIGKILL, false)
}

/// Exits with the child's exit status or signal.
fn exit_like(status: WaitStatus) -> ExitCode {
    let code = match status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, signal, _) => {
            let _ = SigSet::all().thread_unblock();
            let _ = raise(signal);
            128 + signal as i32
        }
        _ => 1,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
