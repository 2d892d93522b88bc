//! Facts between the rounds of a call (2026-07-28, "Multi Round-Trip Requests"): calls to which people have agreed
//! and whose backend asks something, and confirmations that were used.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A client cannot continue a call after this time: its `requestState` has expired.
const MAX_AGE: Duration = Duration::from_secs(3_660);

/// Limit for each of the two, against attacks.
const MAX_ENTRIES: usize = 10_000;

#[derive(Default)]
pub(super) struct Rounds {
    /// By their random ids, which the client gets signed: equal calls are told apart.
    agreed: Mutex<HashMap<String, (String, Instant)>>,
    used: Mutex<HashMap<String, Instant>>,
}

impl Rounds {
    /// Keeps the call `key`, to which people have agreed, for its next round.
    pub(super) fn keep(&self, id: String, key: String) {
        let mut agreed = self.agreed.lock();
        if agreed.len() >= MAX_ENTRIES {
            agreed.retain(|_, (_, since)| since.elapsed() < MAX_AGE);
        }
        // Without room, people are asked again.
        if agreed.len() < MAX_ENTRIES {
            agreed.insert(id, (key, Instant::now()));
        }
    }

    /// Removes a call that was kept. Returns false if there is none, or another one.
    pub(super) fn take(&self, id: &str, key: &str) -> bool {
        let kept = self.agreed.lock().remove(id);
        kept.is_some_and(|(kept, since)| kept == key && since.elapsed() < MAX_AGE)
    }

    /// Uses a confirmation up. Returns false if it was used before, or that cannot be noted.
    pub(super) fn use_up(&self, nonce: &str) -> bool {
        let mut used = self.used.lock();
        if used.len() >= MAX_ENTRIES {
            used.retain(|_, since| since.elapsed() < MAX_AGE);
        }
        used.len() < MAX_ENTRIES && used.insert(nonce.to_owned(), Instant::now()).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_for_one_round_of_one_call() {
        let rounds = Rounds::default();
        rounds.keep("1".to_owned(), "call".to_owned());
        rounds.keep("2".to_owned(), "call".to_owned());
        assert!(rounds.take("1", "call"));
        assert!(!rounds.take("1", "call"));
        assert!(!rounds.take("2", "another call"));
        assert!(!rounds.take("2", "call"));
    }

    #[test]
    fn confirmation_is_used_once() {
        let rounds = Rounds::default();
        assert!(rounds.use_up("1"));
        assert!(!rounds.use_up("1"));
        assert!(rounds.use_up("2"));
    }
}
