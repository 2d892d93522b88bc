//! Process groups.

use std::collections::BTreeSet;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::Streams;

/// The process groups that run now, by the process id of their leader.
#[derive(Clone, Default)]
pub(crate) struct RunningGroups(Arc<Mutex<BTreeSet<i32>>>);

/// A process group that is killed when this is dropped, unless it has ended.
pub(crate) struct ProcessGroup {
    child: Child,
    leader: Option<i32>,
    all: RunningGroups,
}

impl RunningGroups {
    /// Kills all of them.
    pub(crate) fn kill_all(&self) {
        for leader in std::mem::take(&mut *self.lock()) {
            // It may be gone by now.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessGroup {
    /// Starts a program as the leader of a group.
    pub(crate) fn spawn(all: &RunningGroups, mut command: Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        all.lock().extend(leader);
        Ok(Self {
            child,
            leader,
            all: all.clone(),
        })
    }

    /// Takes the streams of the leader.
    pub(crate) fn streams(&mut self) -> Streams {
        let child = &mut self.child;
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    }

    /// Waits for the leader, and then forgets the group: another one may get its id.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        let leader = self.leader.take();
        self.all.lock().retain(|running| Some(*running) != leader);
        Ok(status)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.leader
            && self.all.lock().remove(&leader)
        {
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }
}
