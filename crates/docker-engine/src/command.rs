//! Programs of this machine: `ssh`, credential helpers, compose.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

/// A program without input that is killed with its handle. It gets this server's environment without
/// the variables of this server, which may contain its tokens.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MCP_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The process groups that run now, by the process id of their leader.
#[derive(Clone, Default)]
pub struct RunningGroups(Arc<Mutex<BTreeSet<i32>>>);

/// A process group that is killed when this is dropped, unless it has ended.
pub struct ProcessGroup {
    leader: Option<i32>,
    all: RunningGroups,
}

impl RunningGroups {
    /// Kills all of them.
    pub fn kill_all(&self) {
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
    /// The group that a child leads, by its process id.
    pub fn new(all: &RunningGroups, leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| i32::try_from(id).ok());
        all.lock().extend(leader);
        Self {
            leader,
            all: all.clone(),
        }
    }

    /// Forgets the group, whose leader has ended: another one may get its id.
    pub fn ended(mut self) {
        let leader = self.leader.take();
        self.all.lock().retain(|running| Some(*running) != leader);
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
