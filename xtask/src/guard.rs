//! `xtask guard`: stands between this program and each of its children.
//!
//! The guard holds the read end of a pipe whose write end only its parent has. When
//! the parent closes it, or dies in whatever way, the guard ends the child's whole
//! process group: SIGTERM first, SIGKILL when the grace is over. So nothing that
//! xtask started outlives it, without `unsafe` and without a thread to keep alive.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::identity::PidFile;
use crate::sweep::{MARK, sweep};

enum Event {
    Stop,
    Exited(io::Result<ExitStatus>),
}

/// Arguments: `GRACE_SECONDS PID_FILE_OR_- PROGRAM ARGS…`.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let (Some(grace), Some(pid_file), Some(program)) = (args.next(), args.next(), args.next())
    else {
        bail!("guard needs a grace, a pid file and a program");
    };
    let grace = grace
        .to_str()
        .and_then(|text| text.parse().ok())
        .context("the grace is not a number of seconds")?;
    // Unique, and known to a later run when there is a pid file.
    let mark = match pid_file == "-" {
        true => OsString::from(std::process::id().to_string()),
        false => pid_file.clone(),
    };
    let pid_file = (pid_file != "-").then(|| PidFile::at(PathBuf::from(pid_file)));

    let mut child = Command::new(&program)
        .args(args)
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("could not start {}", program.display()))?;
    let group = Pid::from_raw(i32::try_from(child.id()).context("odd process id")?);
    if let Some(file) = &pid_file {
        file.write(group)?;
    }

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
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        on_parent.send(Event::Stop)
    });
    thread::spawn(move || events.send(Event::Exited(child.wait())));

    let status = supervise(group, Duration::from_secs(grace), &received);
    // The leader is gone; what it left behind goes with it, in its group or out of it.
    let _ = killpg(group, Signal::SIGKILL);
    sweep(&mark);
    if let Some(file) = &pid_file {
        file.remove();
    }
    let status = status?;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn supervise(group: Pid, grace: Duration, events: &Receiver<Event>) -> anyhow::Result<ExitStatus> {
    if let Event::Exited(status) = events.recv()? {
        return Ok(status?);
    }
    let _ = killpg(group, Signal::SIGTERM);
    loop {
        match events.recv_timeout(grace) {
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
