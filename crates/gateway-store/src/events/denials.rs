//! Counts equal denials and refusals: a caller that repeats a denied request writes one event a minute.
//!
//! The first one is an event of its own, at once: whoever reads the log sees it, and it survives a crash. The events after
//! it have the numbers of the others, one for each minute; readers do not hasten them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::Event;

/// Denials of one kind within this time after the first of them are one event.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// Kinds of denials of one principal within this time; the others are one kind.
const MAX_KINDS_OF_PRINCIPAL: usize = 100;

/// Limit for the kinds of all principals. Beyond that each denial is an event.
const MAX_KINDS: usize = 20_000;

/// The parts that equal denials have in common: the item, and the values of recorded arguments. `None` for all other kinds
/// of a principal that has too many.
type Kind = Option<(Arc<str>, String)>;

#[derive(Default)]
pub(crate) struct Denials {
    by_principal: HashMap<Option<Arc<str>>, HashMap<Kind, CountedDenials>>,
    kinds: usize,
}

struct CountedDenials {
    since: Instant,
    /// The number of those without an event, and the last of them.
    count: u64,
    last: Option<Event>,
}

impl Denials {
    /// Returns the event if it is to be written now; counts it otherwise.
    pub(crate) fn admit(&mut self, event: Event, now: Instant) -> Option<Event> {
        let Some((principal, kind)) = event.refusal() else {
            return Some(event);
        };
        let has_room = self.kinds < MAX_KINDS;
        let kinds = self.by_principal.entry(principal).or_default();
        let mut kind = Some(kind);
        if kinds.len() >= MAX_KINDS_OF_PRINCIPAL && !kinds.contains_key(&kind) {
            kind = None;
        }
        if let Some(counted) = kinds.get_mut(&kind) {
            counted.count += 1;
            counted.last = Some(event);
            return None;
        }
        if has_room {
            let (since, count, last) = (now, 0, None);
            kinds.insert(kind, CountedDenials { since, count, last });
            self.kinds += 1;
        }
        Some(event)
    }

    /// Takes the events of the denials that were counted: those whose time is over, or all. A kind that has come again is
    /// counted for another interval.
    pub(crate) fn take(&mut self, now: Instant, all: bool) -> Vec<Event> {
        let mut taken = Vec::new();
        self.by_principal.retain(|_, kinds| {
            kinds.retain(|kind, counted| {
                let is_over = now.saturating_duration_since(counted.since) >= COUNT_INTERVAL;
                if !is_over && !all {
                    return true;
                }
                let Some(last) = counted.last.take() else {
                    return !is_over;
                };
                let count = std::mem::take(&mut counted.count);
                taken.push(last.counted(count, kind.is_some()));
                counted.since = now;
                true
            });
            !kinds.is_empty()
        });
        self.kinds = self.by_principal.values().map(HashMap::len).sum();
        taken
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::server::DeniedBy;
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;
    use crate::events::event::VARIOUS;
    use crate::events::{ArgumentTypes, FinishedRequest, KnownArguments, Outcome, TraceId};

    fn denied(principal: &str, item: &str) -> Event {
        with_arguments(principal, item, &json!({}))
    }

    /// A denied call, of whose arguments `name` is recorded.
    fn with_arguments(principal: &str, item: &str, arguments: &Value) -> Event {
        let known = KnownArguments::new(&json!({"properties": {"name": {}, "other": {}}}));
        let arguments = to_raw_value(arguments).unwrap();
        let arguments = ArgumentTypes::new(&arguments, &known, |argument| argument == "name");
        let request = FinishedRequest {
            item: item.into(),
            arguments: Some(arguments),
            outcome: Outcome::Denied,
            denied_by: Some(DeniedBy::Role),
            principal: Some(principal.into()),
            ..FinishedRequest::default()
        };
        Event::finished(TraceId::new_v4(), request)
    }

    fn counts(events: &[Event]) -> Vec<u64> {
        let mut counts: Vec<u64> = events
            .iter()
            .filter_map(|event| Some(event.denied()?.count))
            .collect();
        counts.sort_unstable();
        counts
    }

    #[test]
    fn equal_denials_are_one_event_a_minute_and_a_count() {
        let (mut denials, start) = (Denials::default(), Instant::now());
        let end = start + COUNT_INTERVAL;
        assert!(denials.admit(denied("ada", "b__x"), start).is_some());
        assert!(denials.admit(denied("ada", "b__y"), start).is_some());
        assert!(denials.admit(denied("bob", "b__x"), start).is_some());
        for _ in 0..1_000 {
            assert!(denials.admit(denied("ada", "b__x"), start).is_none());
        }
        assert!(denials.take(start, false).is_empty());
        assert_eq!(counts(&denials.take(end, false)), [1_000]);
        // In the minutes after that there is one event, and none of the first denial.
        assert!(denials.admit(denied("ada", "b__x"), end).is_none());
        assert_eq!(counts(&denials.take(end, true)), [1]);
        let later = end + COUNT_INTERVAL;
        assert!(denials.take(later, false).is_empty() && denials.by_principal.is_empty());
        assert!(denials.admit(denied("ada", "b__x"), later).is_some());
        // Others are events of their own.
        let ok = Event::finished(TraceId::new_v4(), FinishedRequest::default());
        assert!(denials.admit(ok.clone(), end).is_some() && denials.admit(ok, end).is_some());
    }

    #[test]
    fn denials_differ_by_recorded_values_and_not_by_the_length_of_others() {
        let (mut denials, now) = (Denials::default(), Instant::now());
        for (arguments, is_new) in [
            (json!({"name": "web-1", "other": "x"}), true),
            (json!({"name": "web-1", "other": "longer"}), false),
            (json!({"name": "web-1"}), false),
            (json!({"name": "web-2"}), true),
            (json!({}), true),
        ] {
            let event = with_arguments("ada", "b__x", &arguments);
            assert_eq!(denials.admit(event, now).is_some(), is_new, "{arguments}");
        }
    }

    #[test]
    fn principal_with_many_kinds_has_few_events() {
        let (mut denials, now) = (Denials::default(), Instant::now());
        let all = (0..5_000).map(|n| denied("mallory", &format!("b__{n}")));
        let written = all.filter_map(|event| denials.admit(event, now)).count();
        assert_eq!(written, MAX_KINDS_OF_PRINCIPAL + 1);
        let left = 5_000 - written as u64;
        let others = denials.take(now, true);
        assert_eq!(counts(&others), [left]);
        assert_eq!(&*others[0].denied().unwrap().item, VARIOUS);
        assert!(denials.admit(denied("ada", "b__x"), now).is_some());
    }
}
