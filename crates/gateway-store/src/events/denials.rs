//! The kinds of denials and refusals of the running minute: equal ones are one event, which counts them.
//!
//! The table of events counts for all gateways; see [`Record`](super::Record). Here equal denials that still wait are one
//! event, too, so that a flood of them neither fills the queue nor pushes out what others have done.

use std::collections::HashMap;
use std::sync::Arc;

use super::event::{Event, minute_of};

/// Kinds of denials of one principal in a minute; the others are one kind.
const MAX_KINDS_OF_PRINCIPAL: usize = 100;

/// The places in the queue of the last event of each kind, by its principal.
#[derive(Default)]
pub(crate) struct Denials {
    minute: i64,
    places: HashMap<Option<Arc<str>>, HashMap<String, usize>>,
}

impl Denials {
    /// The place of the last event of this kind in the running minute, to be set for this one; 0 if there was none. `None`
    /// for an event that is no denial. One of too many kinds becomes one about various items.
    pub(crate) fn place_of(&mut self, event: &mut Event) -> Option<&mut usize> {
        let (principal, mut kind) = event.denial()?;
        let minute = minute_of(event.timestamp);
        if minute != self.minute {
            (self.minute, self.places) = (minute, HashMap::new());
        }
        let places = self.places.entry(principal).or_default();
        if places.len() >= MAX_KINDS_OF_PRINCIPAL && !places.contains_key(&kind) {
            event.generalize();
            kind = event.denial()?.1;
        }
        Some(places.entry(kind).or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::database::Queue;
    use crate::events::tests::denied;
    use crate::events::{FinishedRequest, Record, TraceId};

    /// The numbers of the events that wait, each of which is another one in the table.
    fn counts(queue: &Queue) -> Vec<u64> {
        let (events, _) = queue.take(usize::MAX);
        let counts = events.iter().map(|event| event.count).collect();
        let mut hashes: Vec<_> = events
            .into_iter()
            .map(|event| Record::from(event).denial)
            .collect();
        let number = hashes.len();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), number, "{hashes:?}");
        counts
    }

    #[test]
    fn equal_denials_that_wait_are_one_event_of_their_minute() {
        let queue = Queue::default();
        for (principal, item, arguments, minute, times) in [
            ("ada", "b__x", json!({}), 1, 1_000),
            ("ada", "b__y", json!({}), 1, 1),
            ("bob", "b__x", json!({}), 1, 2),
            // Of other arguments not even the length counts.
            ("ada", "b__x", json!({"name": "web-1", "other": "x"}), 1, 1),
            (
                "ada",
                "b__x",
                json!({"name": "web-1", "other": "longer"}),
                1,
                1,
            ),
            ("ada", "b__x", json!({"name": "web-2"}), 1, 1),
            ("ada", "b__x", json!({}), 2, 3),
        ] {
            for _ in 0..times {
                queue.push(denied(principal, item, &arguments, minute));
            }
        }
        assert_eq!(counts(&queue), [1_000, 1, 2, 2, 1, 3]);
        // The table counts on from those that it has.
        for _ in 0..2 {
            queue.push(denied("ada", "b__x", &json!({}), 2));
        }
        assert_eq!(counts(&queue), [2]);
        for _ in 0..2 {
            queue.push(Event::finished(
                TraceId::new_v4(),
                FinishedRequest::default(),
            ));
        }
        assert_eq!(queue.take(usize::MAX).0.len(), 2, "events of their own");
    }

    #[test]
    fn principal_with_many_kinds_has_few_events() {
        let queue = Queue::default();
        for number in 0..5_000 {
            queue.push(denied("mallory", &format!("b__{number}"), &json!({}), 1));
        }
        queue.push(denied("ada", "b__x", &json!({}), 1));
        let found = counts(&queue);
        assert_eq!(found.len(), MAX_KINDS_OF_PRINCIPAL + 2);
        assert_eq!(found.iter().sum::<u64>(), 5_001);
        assert_eq!(found.last(), Some(&1), "ada");
    }
}
