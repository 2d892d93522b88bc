//! Programs of this machine: `ssh`, credential helpers, compose.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};

use process_wrap::tokio::CommandWrap;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// The standard streams of a child; those that are not pipes are `None`.
pub(crate) type Streams = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

/// A program without input that is killed with its handle. It gets this server's environment without
/// the variables of this server, which may contain its tokens.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MCP_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The process groups that run now (on Windows the job objects), and the processes in containers.
#[derive(Clone, Default)]
pub(crate) struct RunningGroups {
    running: TaskTracker,
    stop: CancellationToken,
}

/// A process group that is killed when this is dropped, unless its leader has ended.
pub(crate) struct ProcessGroup {
    pub(crate) id: Option<u32>,
    pub(crate) streams: Streams,
    ended: JoinHandle<io::Result<ExitStatus>>,
    _kill: DropGuard,
}

impl RunningGroups {
    /// Starts work with a process that ends when the token is cancelled: by [`RunningGroups::kill_all`], or when the
    /// guard is dropped.
    pub(crate) fn spawn<F: Future<Output: Send> + Send + 'static>(
        &self,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> (JoinHandle<F::Output>, DropGuard) {
        let stop = self.stop.child_token();
        let guard = stop.clone().drop_guard();
        (self.running.spawn(work(stop)), guard)
    }

    /// Kills all of them, and those that are started later.
    pub(crate) async fn kill_all(&self) {
        self.stop.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

impl ProcessGroup {
    /// Starts a program as the leader of a group.
    pub(crate) fn spawn(all: &RunningGroups, command: Command) -> io::Result<Self> {
        let mut command = CommandWrap::from(command);
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        command
            .wrap(process_wrap::tokio::KillOnDrop)
            .wrap(process_wrap::tokio::JobObject);
        let mut child = command.spawn()?;
        let id = child.id();
        let streams = (
            child.stdin().take(),
            child.stdout().take(),
            child.stderr().take(),
        );
        let (ended, kill) = all.spawn(|stop| async move {
            tokio::select! {
                status = child.inner_mut().wait() => return status,
                () = stop.cancelled() => {}
            }
            child.start_kill()?;
            child.inner_mut().wait().await
        });
        Ok(Self {
            id,
            streams,
            ended,
            _kill: kill,
        })
    }

    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        (&mut self.ended).await?
    }
}
