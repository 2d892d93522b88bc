//! Ends children even when this process is killed with SIGKILL.
//!
//! A program that starts servers starts itself as the reaper of each: a tiny process between the
//! two, which leads the process group of the server, notices when its parent is gone, and takes in
//! whatever the server starts and leaves behind. See [`Command::reaper`](crate::Command::reaper).
//!
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     let mut args = std::env::args_os().skip(1);
//!     if args.next().is_some_and(|first| first == mcp_client::reaper::ARGUMENT) {
//!         return mcp_client::reaper::run(args);
//!     }
//!     // The program proper.
//!     ExitCode::SUCCESS
//! }
//! ```

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

/// The first argument by which a program knows that it is to be a reaper.
pub const ARGUMENT: &str = "reap-child";

/// How long a child may take to end by itself once its stdin is closed, and again after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// After SIGTERM, when the parent is gone: nobody waits for an end in peace.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// How often to look whether the parent is still there, after the pipe to it was closed: the pipes
/// of a process that is killed close a moment before its children know.
const LOOK: Duration = Duration::from_millis(100);
/// What the killed may take to be gone.
const SWEEP: Duration = Duration::from_secs(1);

/// What a shell answers for a program that cannot be started.
const NOT_STARTED: u8 = 127;
/// Instead of the parent's process id: what the reaper starts itself as, to become the child.
const BECOME: &str = "become";

/// The reaper's whole life: starts the program that the arguments after [`ARGUMENT`] name, ends it
/// when the parent is gone or has closed the pipe to it, and ends as it did.
///
/// Call it before anything else, above all before threads are started.
pub fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let outcome = match args.next() {
        Some(first) if first == BECOME => become_child(args),
        Some(parent) => keep(&parent, args).map(end_like),
        None => Err(io::ErrorKind::InvalidInput.into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("cannot be started: {error}");
        ExitCode::from(NOT_STARTED)
    })
}

/// How the child is doing.
enum Phase {
    Running,
    /// Its stdin is closed.
    Leaving(Instant),
    /// It was sent SIGTERM.
    Terminating(Instant),
}

struct ChildReaper {
    parent: Pid,
    child: Pid,
    signals: SignalFd,
    phase: Phase,
}

fn keep(parent: &OsStr, args: impl Iterator<Item = OsString>) -> io::Result<WaitStatus> {
    let parent = parent.to_str().and_then(|parent| parent.parse().ok());
    let parent = Pid::from_raw(parent.ok_or(io::ErrorKind::InvalidInput)?);
    // What the child leaves behind becomes ours, whatever group it has moved to.
    set_child_subreaper(true)?;
    let mut blocked = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        blocked.add(signal);
    }
    // Before there is a child that could be left behind.
    blocked.thread_block()?;
    let mut child = Command::new("/proc/self/exe");
    child
        .args([ARGUMENT, BECOME, &process::id().to_string()])
        .args(args);
    let child = i32::try_from(child.spawn()?.id()).map_err(io::Error::other)?;
    // The parent has to see when the child closes them.
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
    sweep();
    status
}

/// Takes back what a child must not inherit from its reaper, and becomes the program. Arguments: the
/// reaper's process id, the program, its arguments.
fn become_child(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let (Some(reaper), Some(program)) = (args.next(), args.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // Whoever kills the reaper kills the child too.
    set_pdeathsig(Signal::SIGKILL)?;
    if reaper.to_str() != Some(&getppid().to_string()) {
        return Err(io::Error::other("its reaper is gone"));
    }
    SigSet::all().thread_unblock()?;
    Err(Command::new(program).args(args).exec())
}

impl ChildReaper {
    /// Returns when the child has ended, or is to be killed.
    fn watch(mut self) -> io::Result<WaitStatus> {
        loop {
            if let Some(status) = self.reap() {
                return Ok(status);
            }
            let now = Instant::now();
            match self.phase {
                Phase::Running => {}
                Phase::Leaving(since) if getppid() != self.parent => {
                    self.terminate(since + ORPHAN_GRACE);
                }
                Phase::Leaving(since) if now >= since + GRACE => self.terminate(now + GRACE),
                Phase::Leaving(_) => {}
                Phase::Terminating(until) if now >= until => return Ok(killed(self.child)),
                Phase::Terminating(_) => {}
            }
            if self.wait()? {
                return Ok(killed(self.child));
            }
        }
    }

    /// Takes note of all who have ended, ours and those that became ours.
    fn reap(&self) -> Option<WaitStatus> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return None,
                Ok(status) if status.pid() == Some(self.child) => return Some(status),
                Ok(_) | Err(Errno::EINTR) => {}
                // Somebody else has waited for it.
                Err(_) => return Some(killed(self.child)),
            }
        }
    }

    fn terminate(&mut self, until: Instant) {
        // Blocked for ourselves, who are in the group too.
        let _ = killpg(getpid(), Signal::SIGTERM);
        self.phase = Phase::Terminating(until);
    }

    /// Waits until something has happened; true if it is that the parent wants it to end now.
    fn wait(&mut self) -> io::Result<bool> {
        let left = match self.phase {
            Phase::Running => None,
            Phase::Leaving(_) => Some(LOOK),
            Phase::Terminating(until) => Some(until.saturating_duration_since(Instant::now())),
        };
        let left = left.map(|left| PollTimeout::try_from(left + Duration::from_millis(1)));
        let left = left.transpose().map_err(io::Error::other)?;
        let stdin = io::stdin();
        // Nothing is read from it: it is the child's. That it was closed is reported unasked.
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::empty()),
        ];
        let watched = match self.phase {
            Phase::Running => &mut fds[..],
            Phase::Leaving(_) | Phase::Terminating(_) => &mut fds[..1],
        };
        match poll(watched, left.unwrap_or(PollTimeout::NONE)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_closed = fds[1].revents().is_some_and(|events| !events.is_empty());
        if is_closed && matches!(self.phase, Phase::Running) {
            self.phase = Phase::Leaving(Instant::now());
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

/// Kills everything that descends from us. Whose parent dies becomes a child of ours.
fn sweep() {
    let list = format!("/proc/self/task/{}/children", getpid());
    let until = Instant::now() + SWEEP;
    while Instant::now() < until {
        let Ok(children) = std::fs::read_to_string(&list) else {
            // A kernel that does not tell: at least the group, of which we are one.
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

/// Ends as the child did, for the parent to see.
fn end_like(status: WaitStatus) -> ExitCode {
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
