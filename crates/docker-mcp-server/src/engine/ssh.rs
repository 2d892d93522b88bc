//! Connections through the system's `ssh`, as the docker CLI makes them: `docker system dial-stdio` on
//! the other machine joins its standard input and output with the engine's socket.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, Join, join};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use upstream::redact::redacted;

use crate::engine::command::command;
use crate::engine::error::{ConnectProblem, EngineError};
use crate::engine::ssh_address::SshAddress;

/// The most connections of one engine, each a process.
const MAX_CONNECTIONS: usize = 64;
/// The most connections that are being opened: by default sshd drops some from the tenth on
/// (`MaxStartups`).
const MAX_CONNECTING: usize = 6;
/// Bytes of what ssh wrote about a failure, and the timeout for reading them once the connection is lost.
const MAX_STDERR_BYTES: u64 = 2_000;
const STDERR_TIMEOUT: Duration = Duration::from_secs(2);

/// The standard input and output of ssh.
pub(super) type SshStream = Join<ChildStdout, ChildStdin>;
/// Ends ssh when it is dropped.
pub(super) type SshProcess = (Child, OwnedSemaphorePermit);

/// Starts ssh, for a limited number of connections.
pub(super) struct SshDialer {
    connections: Arc<Semaphore>,
    connecting: Arc<Semaphore>,
}

impl SshDialer {
    pub(super) fn new() -> Self {
        Self {
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            connecting: Arc::new(Semaphore::new(MAX_CONNECTING)),
        }
    }

    /// Starts ssh. The stream is a connection only once the engine has answered, after which
    /// the caller ends the [`Opening`].
    pub(super) async fn dial(
        &self,
        address: &SshAddress,
    ) -> Result<(SshStream, SshProcess, Opening), EngineError> {
        let closed = EngineError::unreadable;
        let open = Arc::clone(&self.connections).acquire_owned().await;
        let turn = Arc::clone(&self.connecting).acquire_owned().await;
        let (open, turn) = (open.map_err(closed)?, turn.map_err(closed)?);
        let failed = |error: io::Error| {
            let text = format!("the program ssh cannot be run: {error}");
            EngineError::Unreachable(ConnectProblem::Other, text.into())
        };
        let mut ssh = command("ssh");
        ssh.args(&address.arguments);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ssh.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let opening = Opening {
            stderr,
            _turn: turn,
        };
        Ok((join(stdout, stdin), (child, open), opening))
    }
}

/// A connection that is being opened.
pub(super) struct Opening {
    stderr: ChildStderr,
    _turn: OwnedSemaphorePermit,
}

impl Opening {
    /// The engine has answered.
    pub(super) fn succeed(mut self) {
        // ssh must not block on a full pipe.
        tokio::spawn(
            async move { tokio::io::copy(&mut self.stderr, &mut tokio::io::sink()).await },
        );
    }

    /// The connection was lost before an answer: the error, with what ssh wrote.
    pub(super) async fn fail(self, error: hyper::Error) -> EngineError {
        let mut text = Vec::new();
        let mut stderr = self.stderr.take(MAX_STDERR_BYTES);
        // A process in the background (ControlPersist) may keep the pipe open.
        let _ = tokio::time::timeout(STDERR_TIMEOUT, stderr.read_to_end(&mut text)).await;
        let text = String::from_utf8_lossy(&text);
        let text = redacted(text.trim()).replace(['\r', '\n'], " ");
        let source = match text.is_empty() {
            true => error.into(),
            false => text.into(),
        };
        EngineError::Unreachable(ConnectProblem::Ssh, source)
    }
}
