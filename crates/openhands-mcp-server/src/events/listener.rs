//! Listening to conversations: one event socket for each that somebody follows, however many do.
//!
//! A socket that cannot be had or breaks is tried again for as long as somebody listens. Until then
//! nothing is heard, so whoever listens must also look now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use upstream::poll::Backoff;

use crate::api::{EventSocket, Failure, Servers, TaskId};

/// Before a broken socket is opened again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// The conversations that are listened to.
pub(crate) struct EventListeners {
    servers: Servers,
    sockets: Mutex<HashMap<TaskId, Weak<OpenSocket>>>,
}

/// Hears when something happens in one conversation, for as long as it is kept.
pub(crate) struct Listener {
    /// Anew whenever something happens; true while the socket is open.
    signal: watch::Receiver<bool>,
    /// Holds the socket.
    _socket: Arc<OpenSocket>,
}

/// The task that keeps the socket open; ended with the last listener.
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

    /// Listens to the conversation `id`, wherever it is.
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
    /// Waits until something happens, or until nothing can be heard any more. What happens while
    /// nobody waits is heard at the next wait.
    pub(crate) async fn changed(&mut self) {
        if self.signal.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether something would be heard if it happened now.
    pub(crate) fn is_open(&self) -> bool {
        *self.signal.borrow()
    }
}

async fn keep_open(servers: Servers, id: TaskId, signal: watch::Sender<bool>) {
    let mut delays = RETRY.delays();
    loop {
        match open(&servers, id).await {
            Ok(mut socket) => {
                // The first thing that comes is the state as it is: nothing that happened while
                // there was no socket is missed.
                while socket.next().await.is_ok() {
                    signal.send_replace(true);
                    delays.reset();
                }
                tracing::debug!(task = %id, "the event socket is closed");
            }
            Err(failure) => tracing::debug!(task = %id, ?failure, "there is no event socket"),
        }
        signal.send_if_modified(std::mem::take);
        delays.sleep().await;
    }
}

async fn open(servers: &Servers, id: TaskId) -> Result<EventSocket, Failure> {
    servers.at(id).await?.event_socket(id).await
}
