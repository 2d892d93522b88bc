//! The tickets that were accepted, so that each is accepted once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ticket::LIFETIME;

/// Accepted tickets that are remembered, of 40 bytes or less each: 13,000 hops a second, several times what a core can do.
const MAX_NONCES: usize = 262_144;

/// The nonces of the tickets that may still be valid, by the time of each.
#[derive(Default)]
pub(super) struct UsedNonces(BTreeSet<(Duration, u64)>);

impl UsedNonces {
    /// Remembers the nonce of a ticket of `time`, which is valid `now`. Returns false if it was there already, or if there
    /// is no room: a ticket that might be used twice is refused.
    pub(super) fn insert(&mut self, time: Duration, nonce: u64, now: Duration) -> bool {
        self.insert_within(time, nonce, now, MAX_NONCES)
    }

    fn insert_within(&mut self, time: Duration, nonce: u64, now: Duration, max: usize) -> bool {
        while let Some((oldest, _)) = self.0.first()
            && *oldest + LIFETIME < now
        {
            self.0.pop_first();
        }
        self.0.len() < max && self.0.insert((time, nonce))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_is_accepted_once_while_it_is_valid() {
        let (mut used, second) = (UsedNonces::default(), Duration::from_secs(1));
        let now = second * 1_000;
        assert!(used.insert(now, 7, now));
        assert!(used.insert(now, 8, now));
        assert!(used.insert(now + second, 7, now), "another ticket");
        for later in [now, now + LIFETIME] {
            assert!(!used.insert(now, 7, later));
        }
        assert_eq!(used.0.len(), 3);
        // Not valid any more: what it takes is free again.
        let later = now + LIFETIME + second * 2;
        assert!(used.insert(later, 9, later));
        assert_eq!(used.0.len(), 1);
    }

    #[test]
    fn ticket_is_refused_where_no_more_can_be_remembered() {
        let (mut used, now) = (UsedNonces::default(), Duration::from_secs(1_000));
        for nonce in 0..5 {
            assert_eq!(used.insert_within(now, nonce, now, 3), nonce < 3, "{nonce}");
        }
        let later = now + LIFETIME * 2;
        assert!(used.insert_within(later, 5, later, 3));
    }
}
