//! Listening to conversations: one event socket for each that somebody follows, however many do.
//!
//! A socket that cannot be had or breaks is tried again for as long as somebody listens. Until then
//! nothing is heard, so whoever listens must also look now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::api::{EventSocket, Failure, Servers};
use crate::task_id::TaskId;

/// Before a broken socket is opened again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// The conversations that are listened to.
#[derive(Default)]
pub(crate) struct Ears(Mutex<HashMap<TaskId, Weak<Follower>>>);

/// Hears when something happens in one conversation, for as long as it is kept.
pub(crate) struct Ear {
    /// Anew whenever something happens; true while the socket is open.
    pulse: watch::Receiver<bool>,
    /// Holds the socket.
    _follower: Arc<Follower>,
}

/// The task that keeps the socket open; ended with the last ear.
struct Follower {
    pulse: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ears {
    /// Listens to the conversation `id`, wherever it is.
    pub(crate) fn listen(&self, servers: &Servers, id: TaskId) -> Ear {
        let mut followers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|_, follower| follower.strong_count() > 0);
        let follower = followers.get(&id).and_then(Weak::upgrade);
        let follower = follower.unwrap_or_else(|| {
            let (sender, pulse) = watch::channel(false);
            let task = tokio::spawn(keep_open(servers.clone(), id, sender)).abort_handle();
            let follower = Arc::new(Follower { pulse, task });
            followers.insert(id, Arc::downgrade(&follower));
            follower
        });
        Ear {
            pulse: follower.pulse.clone(),
            _follower: follower,
        }
    }
}

impl Ear {
    /// Waits until something happens, or until nothing can be heard any more. What happens while
    /// nobody waits is heard at the next wait.
    pub(crate) async fn heard(&mut self) {
        if self.pulse.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether something would be heard if it happened now.
    pub(crate) fn is_open(&self) -> bool {
        *self.pulse.borrow()
    }
}

async fn keep_open(servers: Servers, id: TaskId, pulse: watch::Sender<bool>) {
    let mut pause = PAUSES.0;
    loop {
        match open(&servers, id).await {
            Ok(mut socket) => {
                // The first thing that comes is the state as it is: nothing that happened while
                // there was no socket is missed.
                while socket.next().await.is_ok() {
                    pulse.send_replace(true);
                    pause = PAUSES.0;
                }
                tracing::debug!(task = %id, "the event socket is closed");
            }
            Err(failure) => tracing::debug!(task = %id, ?failure, "there is no event socket"),
        }
        pulse.send_if_modified(std::mem::take);
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(PAUSES.1);
    }
}

async fn open(servers: &Servers, id: TaskId) -> Result<EventSocket, Failure> {
    servers.of(id).await?.event_socket(id).await
}
