//! The life of a child process, from its first line to the last of its group.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::time::timeout;

/// How long a child may take to end by itself, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A child and the process group that it leads. Dropping it kills them all.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// `child` must lead a process group.
    pub(super) fn new(child: Child) -> Self {
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        Self { child, group }
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the child, whose stdin is being closed: waits, asks, and then insists.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
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
        self.signal(Signal::SIGKILL);
    }
}
