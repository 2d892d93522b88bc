//! The life of a child process, from its first line to the last of its group.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::reaper::GRACE;

/// What a reaper may take beyond the two waits that are its own.
const KEEPER: Duration = Duration::from_secs(2);

/// A child and the process group that it leads. Dropping it kills them all.
pub(super) struct Process {
    /// Only `None` while it is dropped.
    child: Option<Child>,
    group: Option<Pid>,
    has_reaper: bool,
}

impl Process {
    /// `child` must lead a process group.
    pub(super) fn new(child: Child, has_reaper: bool) -> Self {
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        Self {
            child: Some(child),
            group,
            has_reaper,
        }
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ends the child, whose stdin is being closed: waits, asks, and then insists. A reaper does
    /// all that by itself.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        if self.has_reaper {
            if let Ok(status) = timeout(GRACE * 2 + KEEPER, self.wait()).await {
                return status;
            }
            self.signal(Signal::SIGKILL);
            return self.wait().await;
        }
        if let Ok(status) = timeout(GRACE, self.wait()).await {
            return status;
        }
        self.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(GRACE, self.wait()).await {
            return status;
        }
        self.signal(Signal::SIGKILL);
        self.wait().await
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be empty by now.
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Process {
    /// Also for what the child has started and left behind. While such a process lives, the number
    /// of its group is not given to another.
    fn drop(&mut self) {
        // To a reaper it says: kill them all, and see that they are gone.
        self.signal(match self.has_reaper {
            true => Signal::SIGTERM,
            false => Signal::SIGKILL,
        });
        // Waits for it, so that no zombie is left.
        if let (Ok(runtime), Some(mut child)) = (Handle::try_current(), self.child.take()) {
            runtime.spawn(async move { child.wait().await });
        }
    }
}
