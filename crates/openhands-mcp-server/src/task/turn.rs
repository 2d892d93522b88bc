//! The order in which the tasks of one call start.

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout_at};

/// The turn of a task: it comes once the start of the task before it has ended, also with an error. That of the next
/// task comes when this one has come and is dropped.
#[derive(Default)]
pub(crate) struct Turn {
    previous: Option<Receiver<()>>,
    next: Option<Sender<()>>,
}

impl Turn {
    /// The turns of this many tasks.
    pub(crate) fn sequence(count: usize) -> Vec<Self> {
        let mut previous = None;
        let turn = |_| {
            let (next, receiver) = channel();
            Self {
                previous: previous.replace(receiver),
                next: Some(next),
            }
        };
        (0..count).map(turn).collect()
    }

    /// Waits until it comes.
    ///
    /// # Errors
    /// It has not come by this time.
    pub(crate) async fn come_by(&mut self, time: Instant) -> Result<(), ToolError> {
        timeout_at(time, self.come()).await.map_err(|_| {
            let message = "OpenHands takes too long: the task was not started. Run it again.";
            ToolError::new(ToolErrorKind::Timeout, message)
        })
    }

    async fn come(&mut self) {
        if let Some(previous) = &mut self.previous {
            // Nothing is sent: it ends when the sender is dropped.
            let _ = previous.await;
        }
        self.previous = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A task that fails early does not let the next one pass those before it.
        if let (Some(previous), Some(next)) = (self.previous.take(), self.next.take()) {
            tokio::spawn(async move {
                let _ = previous.await;
                drop(next);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn task_that_fails_early_lets_no_other_pass() {
        let mut turns = Turn::sequence(3).into_iter();
        let [first, second, mut third] = [(); 3].map(|()| turns.next().unwrap());
        drop(second);
        let third = third.come();
        tokio::pin!(third);
        tokio::task::yield_now().await;
        assert!(poll!(&mut third).is_pending());
        drop(first);
        third.await;
    }
}
