//! Files that are followed: a change is noticed by reading them, and counts once it is complete.

use std::sync::Arc;
use std::time::Duration;

/// Interval at which the files are read. Events of the file system would be faster, but get lost on network
/// drives, in containers and with editors that replace files.
pub(crate) const READ_INTERVAL: Duration = Duration::from_millis(500);

/// The contents that a read has found, or why it failed.
type Found<T> = Result<T, String>;

/// Reports each change of files once, when two reads agree: an editor may be writing a file, whose first half may
/// be valid too, and several files are not written at the same moment.
#[derive(Clone)]
pub struct FollowedFiles<T> {
    read: Arc<dyn Fn() -> Found<T> + Send + Sync>,
    /// The last report.
    reported: Found<T>,
    /// The contents at the last read, if they are others.
    candidate: Option<Found<T>>,
}

impl<T: Clone + PartialEq + Send + 'static> FollowedFiles<T> {
    /// Follows the files that `read` reads; `known` is what was found in them before, and is not reported.
    pub fn new(known: Found<T>, read: impl Fn() -> Found<T> + Send + Sync + 'static) -> Self {
        Self {
            read: Arc::new(read),
            reported: known,
            candidate: None,
        }
    }

    /// Returns what was reported last.
    pub fn reported(&self) -> &Found<T> {
        &self.reported
    }

    /// Waits for a change, and returns it. Cancel-safe.
    ///
    /// # Errors
    /// When the files cannot be read any more.
    pub async fn changed(&mut self) -> Found<T> {
        loop {
            tokio::time::sleep(READ_INTERVAL).await;
            let read = Arc::clone(&self.read);
            // A network drive that hangs blocks only this task.
            let Ok(found) = tokio::task::spawn_blocking(move || read()).await else {
                continue;
            };
            if let Some(change) = self.observe(found) {
                return change;
            }
        }
    }

    /// Applies each change. Logs these sentences: one when it was applied, one with the reason when it cannot be.
    pub(crate) async fn follow(
        mut self,
        [applied, unusable]: [&str; 2],
        apply: impl Fn(T) -> anyhow::Result<()>,
    ) {
        loop {
            let done = self.changed().await.and_then(|found| {
                let done = apply(found);
                done.map_err(|error| format!("{error:#}"))
            });
            match done {
                Ok(()) => tracing::info!("{applied}"),
                Err(error) => tracing::warn!(error, "{unusable}"),
            }
        }
    }

    /// Returns what a read has found if it is a change that is complete.
    pub fn observe(&mut self, found: Found<T>) -> Option<Found<T>> {
        let before = self.candidate.take();
        if found == self.reported {
            return None;
        }
        if before.as_ref() != Some(&found) {
            self.candidate = Some(found);
            return None;
        }
        self.reported = found;
        Some(self.reported.clone())
    }
}
