//! Listeners for events of conversations. All listeners of a conversation share one event socket.
//!
//! A socket that cannot be opened or breaks is reopened as long as there are listeners. Events in the
//! meantime are lost, so listeners must also poll.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use upstream::poll::Backoff;

use crate::api::failure::ApiResult;
use crate::api::servers::Servers;
use crate::api::socket::EventSocket;
use crate::api::task_id::TaskId;

/// The delay before a broken socket is reopened.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// The event sockets of all conversations that have listeners.
pub(crate) struct EventListeners {
    servers: Servers,
    sockets: Mutex<HashMap<TaskId, Weak<OpenSocket>>>,
}

/// A subscriber to the events of one conversation. Dropping it ends the subscription.
pub(crate) struct Listener {
    /// Changes with every event; true while the socket is open.
    signal: watch::Receiver<bool>,
    /// Keeps the socket open.
    _socket: Arc<OpenSocket>,
}

/// The background task that keeps the socket open. It ends with the last listener.
struct OpenSocket {
    signal: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EventListeners {
    /// Does not connect.
    pub(crate) fn new(servers: Servers) -> Self {
        Self {
            servers,
            sockets: Mutex::default(),
        }
    }

    /// Subscribes to the events of the conversation `id`.
    pub(crate) fn listen(&self, id: TaskId) -> Listener {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.retain(|_, socket| socket.strong_count() > 0);
        let socket = sockets.get(&id).and_then(Weak::upgrade);
        let socket = socket.unwrap_or_else(|| {
            let (sender, signal) = watch::channel(false);
            let task = tokio::spawn(keep_open(self.servers.clone(), id, sender)).abort_handle();
            let socket = Arc::new(OpenSocket { signal, task });
            sockets.insert(id, Arc::downgrade(&socket));
            socket
        });
        Listener {
            signal: socket.signal.clone(),
            _socket: socket,
        }
    }
}

impl Listener {
    /// Waits for an event, or for the loss of the socket. Returns at once if there was an event since
    /// the last call.
    pub(crate) async fn changed(&mut self) {
        if self.signal.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Returns true if the socket is open, so that new events arrive.
    pub(crate) fn is_open(&self) -> bool {
        *self.signal.borrow()
    }
}

async fn keep_open(servers: Servers, id: TaskId, signal: watch::Sender<bool>) {
    let mut delays = RETRY_BACKOFF.delays();
    loop {
        match open(&servers, id).await {
            Ok(mut socket) => {
                // The first message is the current state, which includes events that were missed
                // while the socket was closed.
                while socket.next().await.is_ok() {
                    signal.send_replace(true);
                    delays.reset();
                }
                tracing::debug!(task = %id, "the event socket is closed");
            }
            Err(failure) => tracing::debug!(task = %id, ?failure, "cannot open the event socket"),
        }
        signal.send_if_modified(std::mem::take);
        delays.sleep().await;
    }
}

async fn open(servers: &Servers, id: TaskId) -> ApiResult<EventSocket> {
    servers.for_task(id).await?.event_socket(id).await
}
