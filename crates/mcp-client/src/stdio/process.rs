//! The life of a child process, in a process group, or on Windows in a job object.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::command::Command;
use super::{Connected, lines};

/// Grace period of a child after its stdin was closed, and again after SIGTERM.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The standard streams of a child.
pub(super) type Streams = (ChildStdin, ChildStdout, ChildStderr);

/// A child and its group or job. Dropping it kills all of them.
pub(super) struct ChildProcess(Box<dyn ChildWrapper>);

impl ChildProcess {
    /// Starts the program in a group or job of its own.
    ///
    /// # Errors
    /// When there is no such program.
    pub(super) fn spawn(command: &Command) -> io::Result<Self> {
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

    pub(super) fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// Returns the streams, once.
    pub(super) fn streams(&mut self) -> Option<Streams> {
        Some((
            self.0.stdin().take()?,
            self.0.stdout().take()?,
            self.0.stderr().take()?,
        ))
    }

    /// Waits for the child itself, not for all that it has started.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.inner_mut().wait().await
    }

    /// Ends the child, whose stdin is being closed: waits, then sends SIGTERM where there are signals,
    /// then kills, with a grace period before each.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
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

/// Timeout of reading the last output of a child, and of its exit after it has closed stdout.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs until the child and its group are gone.
pub(super) async fn supervise(mut process: ChildProcess, connected: Connected) {
    let Connected {
        reader,
        queue,
        stop,
        ended,
    } = connected;
    let _ended = ended.drop_guard();
    let pending = reader.pending.clone();
    let peer = reader.peer.clone();
    let Some((stdin, stdout, stderr)) = process.streams() else {
        return pending.close("it has no standard streams".to_owned());
    };

    let _writing = spawn(lines::write(stdin, queue, stop.clone()));
    let forwarding = lines::forward(peer.clone(), reader.inbound.clone(), stderr);
    let mut logging = spawn(forwarding);
    let mut reading = spawn(async move { reader.read(stdout).await });

    tokio::select! {
        status = process.wait() => {
            let reason = exit(status);
            drop(process);
            drain_output(&mut reading, &mut logging).await;
            pending.close(reason);
        }
        fault = &mut reading => {
            let reason = match fault.ok().flatten() {
                Some(fault) => fault,
                None => match timeout(DRAIN_TIMEOUT, process.wait()).await {
                    Ok(status) => exit(status),
                    Err(_) => "it closed its output".to_owned(),
                },
            };
            pending.close(reason);
            stop.cancel();
            let _ = process.end().await;
            drop(process);
            let _ = timeout(DRAIN_TIMEOUT, &mut logging).await;
        }
        () = stop.cancelled() => {
            let status = process.end().await;
            drop(process);
            drain_output(&mut reading, &mut logging).await;
            tracing::debug!(peer = %peer, end = exit(status), "child ended");
            pending.close("it was closed".to_owned());
        }
    }
}

fn exit(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("its exit status cannot be read: {error}"),
    }
}

/// Reads the rest of an ended child's output. A process that still holds the pipes has left the group
/// on purpose, and is not waited for.
async fn drain_output(
    reading: &mut AbortOnDropHandle<Option<String>>,
    logging: &mut AbortOnDropHandle<()>,
) {
    let both = async { tokio::join!(reading, logging) };
    let _ = timeout(DRAIN_TIMEOUT, both).await;
}

fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(tokio::spawn(work))
}
