//! The order in which the tasks of one call start.

use tokio::sync::oneshot::{Receiver, Sender, channel};

/// The turn of a task: it comes once the start of the task before it has ended, also with an error. That of the next
/// task comes when this one is dropped.
#[derive(Default)]
pub(crate) struct Turn {
    previous: Option<Receiver<()>>,
    _next: Option<Sender<()>>,
}

impl Turn {
    /// The turns of this many tasks.
    pub(crate) fn sequence(count: usize) -> Vec<Self> {
        let mut previous = None;
        let turn = |_| {
            let (next, receiver) = channel();
            Self {
                previous: previous.replace(receiver),
                _next: Some(next),
            }
        };
        (0..count).map(turn).collect()
    }

    /// Waits until it comes.
    pub(crate) async fn come(&mut self) {
        if let Some(previous) = self.previous.take() {
            // Nothing is sent: it ends when the sender is dropped.
            let _ = previous.await;
        }
    }
}
