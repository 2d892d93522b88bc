//! Job objects.

use std::io;
use std::process::ExitStatus;

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};
use tokio::process::Command;

use super::Streams;

/// The jobs that run now. The system ends them with this program, so nothing is kept here.
#[derive(Clone, Default)]
pub(crate) struct RunningJobs;

/// A job that is ended when this is dropped.
pub(crate) struct Job(Box<dyn ChildWrapper>);

impl RunningJobs {
    /// Does nothing: this program is about to exit.
    pub(crate) fn kill_all(&self) {}
}

impl Job {
    /// Starts a program in a job of its own.
    pub(crate) fn spawn(_: &RunningJobs, command: Command) -> io::Result<Self> {
        let mut command = CommandWrap::from(command);
        command.wrap(KillOnDrop).wrap(JobObject);
        command.spawn().map(Self)
    }

    /// Takes the streams of the program.
    pub(crate) fn streams(&mut self) -> Streams {
        (
            self.0.stdin().take(),
            self.0.stdout().take(),
            self.0.stderr().take(),
        )
    }

    /// Waits for the program.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.inner_mut().wait().await
    }
}
