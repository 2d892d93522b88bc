//! The stdio transport: a child process with one JSON-RPC message per line on stdin and stdout.

mod command;
pub(crate) mod lines;
mod pending;
mod process;
mod reader;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use self::command::Command;
pub(crate) use self::pending::Pending;
use self::process::ChildProcess;
use self::reader::Reader;
use crate::Error;
use crate::inbound::Inbound;
use crate::outgoing::Outgoing;
use crate::response_routes::ResponseRoutes;

/// Capacity of the send queue, in messages.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Timeout of waiting for a slot in the send queue.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A stdio transport to a child process, or another one with two directions.
pub(crate) struct Stdio {
    peer: Arc<str>,
    pid: Option<u32>,
    pending: Arc<Pending>,
    writer: mpsc::Sender<String>,
    /// Cancelled to end the child.
    stop: CancellationToken,
    /// Cancelled when the child has ended.
    ended: CancellationToken,
    /// The task that owns everything that belongs to the child.
    _supervisor: AbortOnDropHandle<()>,
}

/// The ends of a connection that its task owns.
pub(crate) struct Connected {
    pub(crate) reader: Reader,
    /// The messages to send.
    pub(crate) queue: mpsc::Receiver<String>,
    /// Cancelled to end the connection.
    pub(crate) stop: CancellationToken,
    /// Cancelled by the task when the connection has ended.
    pub(crate) ended: CancellationToken,
}

fn runtime() -> Result<Handle, Error> {
    let missing = |_| Error::Invalid("a connection needs a Tokio runtime".to_owned());
    Handle::try_current().map_err(missing)
}

impl Stdio {
    pub(crate) fn spawn(command: Command, inbound: Arc<Inbound>) -> Result<Self, Error> {
        let peer = command.name();
        // `spawn` needs one, too.
        runtime()?;
        let child = ChildProcess::spawn(&command).map_err(|error| Error::Unreachable {
            peer: peer.clone(),
            source: error.into(),
        })?;
        let pid = child.id();
        Self::start(peer, pid, inbound, command.max_message, |connected| {
            process::supervise(child, connected)
        })
    }

    /// Starts the task that owns the connection.
    pub(crate) fn start<F>(
        peer: Arc<str>,
        pid: Option<u32>,
        inbound: Arc<Inbound>,
        max_message: usize,
        run: impl FnOnce(Connected) -> F,
    ) -> Result<Self, Error>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = runtime()?;
        let pending = Arc::new(Pending::new(peer.clone()));
        let (writer, queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let reader = Reader {
            peer: peer.clone(),
            pending: pending.clone(),
            inbound,
            // Weak, so that the queue closes although the reader still runs.
            writer: writer.downgrade(),
            max_message,
        };
        let life = run(Connected {
            reader,
            queue,
            stop: stop.clone(),
            ended: ended.clone(),
        });
        Ok(Self {
            peer,
            pid,
            pending,
            writer,
            stop,
            ended,
            _supervisor: AbortOnDropHandle::new(runtime.spawn(life)),
        })
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.peer
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid.filter(|_| !self.ended.is_cancelled())
    }

    pub(crate) async fn exchange(
        &self,
        request: Outgoing<'_>,
        routes: Arc<ResponseRoutes>,
    ) -> Result<Box<RawValue>, Error> {
        let pending = self.pending.register(request.id, routes)?;
        self.send(request.body).await?;
        pending.outcome().await
    }

    pub(crate) async fn send(&self, message: String) -> Result<(), Error> {
        let sent = self.writer.send_timeout(message, BUSY_TIMEOUT).await;
        sent.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => Error::Busy {
                peer: self.peer.clone(),
            },
            SendTimeoutError::Closed(_) => {
                let reason = self.pending.end();
                self.pending
                    .unreachable(reason.as_deref().unwrap_or("it is shutting down"))
            }
        })
    }

    pub(crate) fn cancel(&self, message: String) {
        if self.writer.try_send(message).is_err() {
            tracing::debug!(peer = %self.peer, "cancellation not delivered");
        }
    }

    pub(crate) async fn closed(&self) -> String {
        self.ended.cancelled().await;
        self.pending.end().unwrap_or_default()
    }

    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}
