//! Shares one answer among all callers that ask n8n for the same at the same time, and the request ids that
//! executions hold: of many runs at the same time, each reads each execution at most once for all.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_core::tool::ToolError;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::production_url::REQUEST_ID;

/// The longest delay of a request for which others wait, too.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// An answer that several callers receive.
type Answer<T> = Result<Arc<T>, Arc<ToolError>>;

/// Values by key, each kept for as long as a caller holds it.
pub(super) type Slots<K, T> = Mutex<HashMap<K, Weak<T>>>;

/// Answers by request, each with the moment in which it was asked for.
pub(super) type Shared<K, T> = Slots<K, tokio::sync::Mutex<Option<(Instant, Answer<T>)>>>;

/// The value of this key, which is a new one if no other caller holds it.
pub(super) fn slot<K: Eq + Hash, T: Default>(slots: &Slots<K, T>, key: K) -> Arc<T> {
    let mut slots = slots.lock();
    slots.retain(|_, slot| slot.strong_count() > 0);
    if let Some(slot) = slots.get(&key).and_then(Weak::upgrade) {
        return slot;
    }
    let slot = Arc::default();
    slots.insert(key, Arc::downgrade(&slot));
    slot
}

/// The answer to `request`, or to an equal one of another caller that was sent after `since`. Each caller that
/// waits delays the request by `spacing`, so that it serves more of them.
pub(super) async fn shared<K: Eq + Hash, T, E: Into<ToolError>>(
    answers: &Shared<K, T>,
    key: K,
    since: Instant,
    spacing: Duration,
    request: impl Future<Output = Result<T, E>>,
) -> Result<Arc<T>, ToolError> {
    let given = |answer: Answer<T>| {
        answer.map_err(|error| ToolError::new(error.kind(), error.message()).caused_by(error))
    };
    let slot = slot(answers, key);
    let mut last = slot.lock().await;
    if let Some((sent, answer)) = &*last
        && *sent >= since
    {
        return given(answer.clone());
    }
    let others = Arc::strong_count(&slot).saturating_sub(1);
    let others = u32::try_from(others).unwrap_or(u32::MAX);
    sleep(spacing.saturating_mul(others).min(MAX_DELAY)).await;
    let sent = Instant::now();
    let answer = request.await.map(Arc::new);
    let answer = answer.map_err(|error| Arc::new(error.into()));
    *last = Some((sent, answer.clone()));
    given(answer)
}

/// Executions that are remembered, the newest.
const MAX_KNOWN: usize = 2_000;
const ID_LEN: usize = 36;

#[derive(Default)]
pub(crate) struct RequestIds {
    known: Mutex<BTreeMap<u64, Vec<String>>>,
}

impl RequestIds {
    /// Remembers the ids in the JSON of an execution; false if it holds none.
    pub(crate) fn read(&self, execution: u64, json: &str) -> bool {
        let ids: Vec<_> = request_ids(json).map(str::to_owned).collect();
        let has_ids = !ids.is_empty();
        if has_ids {
            let mut known = self.known.lock();
            known.insert(execution, ids);
            if known.len() > MAX_KNOWN {
                known.pop_first();
            }
        }
        has_ids
    }

    /// True if the execution holds ids, and not this one.
    pub(crate) fn is_of_another(&self, execution: u64, request_id: &str) -> bool {
        let known = self.known.lock();
        let ids = known.get(&execution);
        ids.is_some_and(|ids| ids.iter().all(|id| id != request_id))
    }
}

/// The values of the header, as far as they have the form of an id.
fn request_ids(json: &str) -> impl Iterator<Item = &str> {
    json.split(REQUEST_ID).skip(1).filter_map(|rest| {
        let start = rest.find(|one: char| one.is_ascii_hexdigit())?;
        // Quotes, a colon, blanks.
        let id = rest.get(start..start + ID_LEN).filter(|_| start < 8)?;
        let is_id = |one: u8| one.is_ascii_hexdigit() || one == b'-';
        id.bytes().all(is_id).then_some(id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_with_another_id_is_not_read_again() {
        let ids = RequestIds::default();
        let [ours, theirs] = [1, 2].map(|at| uuid::Uuid::from_u128(at).to_string());
        let json = |id: &str| format!(r#"{{"headers":{{"{REQUEST_ID}":"{id}","x":"y"}}}}"#);
        assert!(ids.read(7, &json(&theirs)));
        assert!(ids.is_of_another(7, &ours) && !ids.is_of_another(7, &theirs));
        // It may still be saved.
        assert!(!ids.read(8, "{}") && !ids.read(8, &json("none")));
        assert!(!ids.is_of_another(8, &ours));
        // Ours, which called the workflow again, or theirs that passed our header on.
        assert!(ids.read(9, &(json(&theirs) + &json(&ours))));
        assert!(!ids.is_of_another(9, &ours));
    }
}
