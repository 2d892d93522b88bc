//! Shares one answer among all callers that ask n8n for the same at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{Instant, sleep};
use upstream::http::HttpFailure;

/// The longest delay of a request for which others wait, too.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// A failure that several callers receive.
#[derive(Clone, Debug)]
pub(crate) struct SharedFailure {
    kind: ToolErrorKind,
    message: String,
}

impl From<HttpFailure> for SharedFailure {
    fn from(failure: HttpFailure) -> Self {
        ToolError::from(failure).into()
    }
}

impl From<ToolError> for SharedFailure {
    fn from(error: ToolError) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
        }
    }
}

impl From<SharedFailure> for ToolError {
    fn from(failure: SharedFailure) -> Self {
        Self::new(failure.kind, failure.message)
    }
}

/// An answer that several callers receive.
pub(crate) type SharedAnswer<T> = Result<Arc<T>, SharedFailure>;

/// The last answer, and when it was asked for.
type Slot<V> = tokio::sync::Mutex<Option<(Instant, V)>>;

/// Answers by request. An answer is dropped when no caller waits for it.
pub(crate) struct Shared<K, V> {
    slots: Mutex<HashMap<K, Arc<Slot<V>>>>,
}

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self {
            slots: Mutex::default(),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Shared<K, V> {
    /// The answer to `request`, or to an equal one of another caller that was sent after `since`. Each
    /// caller that waits delays the request by `spacing`, so that it serves more of them.
    pub(crate) async fn get(
        &self,
        key: K,
        since: Instant,
        spacing: Duration,
        request: impl Future<Output = V>,
    ) -> V {
        let lease = self.lease(key);
        let mut last = lease.slot.lock().await;
        if let Some((sent, answer)) = &*last
            && *sent >= since
        {
            return answer.clone();
        }
        // Without the map's and this caller's.
        let others = Arc::strong_count(&lease.slot).saturating_sub(2);
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        sleep(spacing.saturating_mul(others).min(MAX_DELAY)).await;
        let sent = Instant::now();
        let answer = request.await;
        *last = Some((sent, answer.clone()));
        answer
    }

    fn lease(&self, key: K) -> Lease<'_, K, V> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(key.clone()).or_default());
        Lease {
            shared: self,
            key,
            slot,
        }
    }
}

/// A caller's share of a slot.
struct Lease<'a, K: Eq + Hash, V> {
    shared: &'a Shared<K, V>,
    key: K,
    slot: Arc<Slot<V>>,
}

impl<K: Eq + Hash, V> Drop for Lease<'_, K, V> {
    fn drop(&mut self) {
        let slots = self.shared.slots.lock();
        let mut slots = slots.unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&self.slot) <= 2 {
            slots.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_requests_that_were_sent_after_they_asked() {
        let (shared, sent) = (Shared::default(), AtomicU32::new(0));
        let ask = |key: &'static str| {
            let request = async {
                sleep(Duration::from_millis(5)).await;
                sent.fetch_add(1, Relaxed)
            };
            shared.get(key, Instant::now(), Duration::from_millis(1), request)
        };
        // The first is served alone: the others ask once its request is under way.
        let first = ask("a");
        let later = async {
            sleep(Duration::from_millis(1)).await;
            join_all((0..50).map(|_| ask("a"))).await
        };
        let (first, later) = tokio::join!(first, later);
        assert_eq!((first, later), (0, vec![1; 50]));
        assert_eq!(ask("a").await, 2, "nothing is kept");
        assert_eq!(ask("b").await, 3);
        assert!(shared.slots.lock().unwrap().is_empty());
    }
}
