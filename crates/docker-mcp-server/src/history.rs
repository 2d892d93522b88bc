//! The events since this server started. The engine itself keeps 256, and every run of a health check
//! makes three of them: on a usual host it has forgotten a kill after two minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::engine::Event;

/// Most events, and their age in seconds. A trimmed event takes about 500 bytes.
const MAX_EVENTS: usize = 10_000;
const MAX_AGE_SECONDS: i64 = 7 * 24 * 3600;
/// Most events of one object: a crash loop makes three per second and must not push out the others.
const MAX_EVENTS_OF_ONE: usize = 500;

/// The events that the policy lets callers see, without labels, oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    events: VecDeque<Event>,
    /// Unix nanoseconds; nothing is missing since then.
    complete_since: Option<i64>,
}

impl History {
    /// Notes that the events before `nanos` may be incomplete.
    pub(crate) fn begin(&self, nanos: i64) {
        self.with(|recorded| recorded.complete_since = Some(nanos));
    }

    /// Adds an event. Leaves out a health check with the same result as before.
    pub(crate) fn record(&self, event: &Event) {
        self.with(|recorded| recorded.push(event.trimmed()));
    }

    /// The events that pass `wanted`, oldest first, and the unix nanoseconds since when all are known.
    pub(crate) fn select(&self, wanted: impl Fn(&Event) -> bool) -> (Vec<Event>, Option<i64>) {
        self.with(|recorded| {
            let events = recorded.events.iter().filter(|event| wanted(event));
            (events.cloned().collect(), recorded.complete_since)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Recorded) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recorded {
    fn push(&mut self, event: Event) {
        let same = |other: &&Event| other.id() == event.id() && other.kind == event.kind;
        if event.verb() == "health_status" {
            let mut known = self.events.iter().rev().filter(same);
            let last = known.find(|other| other.verb() == "health_status");
            if last.is_some_and(|last| last.action == event.action) {
                return;
            }
        }
        if self.events.iter().filter(same).count() >= MAX_EVENTS_OF_ONE {
            let oldest = self.events.iter().position(|other| same(&other));
            oldest.map(|at| self.events.remove(at));
        }
        let too_old = event.time - MAX_AGE_SECONDS;
        self.events.push_back(event);
        while let Some(first) = self.events.front()
            && (self.events.len() > MAX_EVENTS || first.time < too_old)
        {
            self.complete_since = self.complete_since.max(Some(first.nanos() + 1));
            self.events.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(id: &str, action: &str, time: i64) -> Event {
        let labels = json!({"name": id, "exitCode": "3", "secret.label": "canary"});
        let event = json!({"Type": "container", "Action": action, "time": time,
            "timeNano": time * 1_000_000_000, "Actor": {"ID": id, "Attributes": labels}});
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn history_is_bounded_and_says_from_when_on_it_is_complete() {
        let history = History::default();
        history.begin(5);
        for time in 0..2_000 {
            history.record(&event("loop", "die", time));
        }
        history.record(&event("web", "health_status: healthy", 2_001));
        history.record(&event("web", "health_status: healthy", 2_002));
        history.record(&event("web", "kill", 2_003));
        let of = |id: &str| history.select(|event| event.id() == id);
        assert_eq!(of("loop").0.len(), MAX_EVENTS_OF_ONE);
        let (web, since) = of("web");
        let actions: Vec<_> = web.iter().map(|event| &*event.action).collect();
        assert_eq!(
            (actions, since),
            (vec!["health_status: healthy", "kill"], Some(5))
        );
        assert_eq!(web[1].attributes().len(), 2, "labels are not kept");
        for number in 0..MAX_EVENTS {
            history.record(&event(&number.to_string(), "die", 3_000));
        }
        assert_eq!(
            (of("web").0.len(), history.select(|_| true).0.len()),
            (0, MAX_EVENTS)
        );
        assert_eq!(of("web").1, Some(2_003_000_000_001));
        history.record(&event("late", "die", 3_001 + MAX_AGE_SECONDS));
        assert_eq!(history.select(|_| true).0.len(), 1);
    }
}
