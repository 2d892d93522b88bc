//! The request ids that executions hold: of many runs at the same time, each reads each execution at most
//! once for all.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::production_url::REQUEST_ID;

/// Executions that are remembered, the newest.
const MAX_KNOWN: usize = 2_000;
/// The length of a UUID as text.
const ID_LEN: usize = 36;

/// The ids by the number of the execution.
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
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(execution, ids);
            if known.len() > MAX_KNOWN {
                known.pop_first();
            }
        }
        has_ids
    }

    /// True if the execution holds ids, and not this one.
    pub(crate) fn is_of_another(&self, execution: u64, request_id: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
        for execution in 100..100 + MAX_KNOWN as u64 {
            ids.read(execution, &json(&theirs));
        }
        assert!(
            !ids.is_of_another(7, &ours),
            "only the newest are remembered"
        );
    }
}
