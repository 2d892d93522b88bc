//! A child process: one JSON-RPC message per line, its stdin and its stdout.

mod command;
mod lines;
mod pending;
mod process;
mod reader;
mod supervise;
mod writer;

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

pub use self::command::Command;
use self::pending::Pending;
use crate::incoming::Inbox;
use crate::outgoing::Outgoing;
use crate::{Error, Progress};

/// Messages that may wait for a child to read them.
const QUEUE: usize = 256;

/// The way to a server that is our child.
pub(crate) struct Stdio {
    peer: Arc<str>,
    pending: Arc<Pending>,
    writer: mpsc::Sender<String>,
    /// Asks the child to end.
    stop: CancellationToken,
    /// The child has ended.
    ended: CancellationToken,
    supervisor: AbortHandle,
}

impl Stdio {
    pub(crate) fn spawn(command: Command, inbox: Inbox) -> Result<Self, Error> {
        let runtime = Handle::try_current()
            .map_err(|_| Error::Invalid("a child needs a Tokio runtime".to_owned()))?;
        let peer = command.name();
        let pending = Arc::new(Pending::new(peer.clone()));
        let (writer, queue) = mpsc::channel(QUEUE);
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let child = command
            .to_process()
            .spawn()
            .map_err(|error| Error::Unreachable {
                peer: peer.clone(),
                source: error.into(),
            })?;
        let reader = reader::Reader {
            peer: peer.clone(),
            pending: pending.clone(),
            inbox,
            // Weak, or the queue would never end while somebody reads.
            writer: writer.downgrade(),
            max_message: command.max_message,
        };
        let life = supervise::supervise(child, reader, queue, stop.clone(), ended.clone());
        let supervisor = runtime.spawn(life).abort_handle();
        Ok(Self {
            peer,
            pending,
            writer,
            stop,
            ended,
            supervisor,
        })
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.peer
    }

    pub(crate) async fn exchange(
        &self,
        request: Outgoing,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Box<RawValue>, Error> {
        let place = self.pending.wait_for(request.id, progress)?;
        self.send(request.body).await?;
        place.answer().await
    }

    pub(crate) async fn send(&self, message: String) -> Result<(), Error> {
        self.writer
            .send(message)
            .await
            .map_err(|_| self.pending.unreachable())
    }

    pub(crate) fn cancel(&self, message: String) {
        if self.writer.try_send(message).is_err() {
            tracing::debug!(peer = %self.peer, "cancellation not delivered");
        }
    }

    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Stdio {
    /// Everything that belongs to the child lives in the supervisor's task.
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}
