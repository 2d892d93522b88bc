//! A child of macOS, in a process group, or of Windows, in a job object.

use std::io;
use std::process::ExitStatus;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::time::timeout;

use super::{Command, Streams};
use crate::reaper::EXIT_GRACE;

/// A child and its group or job. Dropping it kills all of them.
pub(in crate::stdio) struct ChildProcess(Box<dyn ChildWrapper>);

impl ChildProcess {
    /// Starts the program in a group or job of its own.
    ///
    /// # Errors
    /// When there is no such program.
    pub(in crate::stdio) fn spawn(command: &Command) -> io::Result<Self> {
        // Windows itself would not find `npx.cmd` for `npx`.
        let mut process = tokio::process::Command::new(command.find_program()?);
        command.configure(&mut process);
        let mut process = CommandWrap::from(process);
        #[cfg(unix)]
        process.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        process
            .wrap(process_wrap::tokio::KillOnDrop)
            .wrap(process_wrap::tokio::JobObject);
        process.spawn().map(Self)
    }

    pub(in crate::stdio) fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// Returns the streams, once.
    pub(in crate::stdio) fn streams(&mut self) -> Option<Streams> {
        Some((
            self.0.stdin().take()?,
            self.0.stdout().take()?,
            self.0.stderr().take()?,
        ))
    }

    /// Waits for the child itself, not for all that it has started.
    pub(in crate::stdio) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.inner_mut().wait().await
    }

    /// Ends the child, whose stdin is being closed: waits, then sends SIGTERM where there are signals,
    /// then kills, with a grace period before each.
    pub(in crate::stdio) async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(EXIT_GRACE, self.wait()).await {
            return status;
        }
        #[cfg(unix)]
        {
            let _ = self.0.signal(nix::sys::signal::Signal::SIGTERM as i32);
            if let Ok(status) = timeout(EXIT_GRACE, self.wait()).await {
                return status;
            }
        }
        self.0.start_kill()?;
        self.wait().await
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It may be gone by now. Tokio reaps it.
        let _ = self.0.start_kill();
    }
}
