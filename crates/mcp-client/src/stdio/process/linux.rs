//! A child of Linux: it leads a process group, mostly behind a reaper.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{self, Child};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{Command, Streams};
use crate::reaper::{self, EXIT_GRACE};

/// Time for a reaper in addition to the two grace periods that it grants itself.
const REAPER_GRACE: Duration = Duration::from_secs(2);

/// A child and the process group that it leads. Dropping it kills the whole group.
pub(in crate::stdio) struct ChildProcess {
    /// `None` only during the drop.
    child: Option<Child>,
    group: Option<Pid>,
    has_reaper: bool,
}

impl ChildProcess {
    /// Starts the program, or the reaper that starts it, as the leader of a process group.
    ///
    /// # Errors
    /// When there is no such program.
    pub(in crate::stdio) fn spawn(command: &Command) -> io::Result<Self> {
        let has_reaper = command.reaper.is_some();
        let mut process = match &command.reaper {
            None => process::Command::new(&command.program),
            Some(reaper) => {
                // The reaper would notice too late to report that there is no such program.
                command.find_program()?;
                let mut process = process::Command::new(reaper);
                process.arg(reaper::ARGUMENT);
                process.arg(std::process::id().to_string());
                process.arg(&command.program);
                process
            }
        };
        command.configure(&mut process);
        let child = process.process_group(0).kill_on_drop(!has_reaper).spawn()?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        Ok(Self {
            child: Some(child),
            group,
            has_reaper,
        })
    }

    pub(in crate::stdio) fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Returns the streams, once.
    pub(in crate::stdio) fn streams(&mut self) -> Option<Streams> {
        let child = self.child.as_mut()?;
        Some((
            child.stdin.take()?,
            child.stdout.take()?,
            child.stderr.take()?,
        ))
    }

    pub(in crate::stdio) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ends the child, whose stdin is being closed: waits, then sends SIGTERM, then SIGKILL, with a
    /// grace period before each. A reaper does the same by itself.
    pub(in crate::stdio) async fn end(&mut self) -> io::Result<ExitStatus> {
        if self.has_reaper {
            if let Ok(status) = timeout(EXIT_GRACE * 2 + REAPER_GRACE, self.wait()).await {
                return status;
            }
            self.signal(Signal::SIGKILL);
            return self.wait().await;
        }
        if let Ok(status) = timeout(EXIT_GRACE, self.wait()).await {
            return status;
        }
        self.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(EXIT_GRACE, self.wait()).await {
            return status;
        }
        self.signal(Signal::SIGKILL);
        self.wait().await
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be gone by now.
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for ChildProcess {
    /// Kills also what the child has left behind. As long as such a process runs, the kernel does not
    /// reuse the id of its group.
    fn drop(&mut self) {
        // On SIGTERM a reaper kills all descendants and waits until they are gone.
        self.signal(match self.has_reaper {
            true => Signal::SIGTERM,
            false => Signal::SIGKILL,
        });
        // Waits for the child, so that no zombie is left.
        if let (Ok(runtime), Some(mut child)) = (Handle::try_current(), self.child.take()) {
            runtime.spawn(async move { child.wait().await });
        }
    }
}
