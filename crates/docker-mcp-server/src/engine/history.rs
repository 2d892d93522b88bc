//! The events since this server started. The engine itself keeps 256, and every run of a health check
//! makes three of them: on a usual host it has forgotten a kill after two minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::engine::events::Event;

/// Most events, and their age in seconds. A trimmed event takes about 500 bytes.
const MAX_EVENTS: usize = 10_000;
const MAX_AGE_SECONDS: i64 = 7 * 24 * 3600;
/// Most events of one object: a crash loop makes three per second and must not push out the others.
const MAX_EVENTS_OF_ONE: usize = 500;

/// Recorded events without their labels, oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    events: VecDeque<Event>,
    /// Unix nanoseconds; nothing is missing since then, except older events of `full` objects.
    complete_since: Option<i64>,
    /// The last event that was dropped of each object that had too many.
    full: Vec<Event>,
    /// Unix seconds at which the engine went away.
    lost: Option<i64>,
}

impl History {
    /// Notes that the events before `nanos` may be incomplete.
    pub(crate) fn begin(&self, nanos: i64) {
        self.with(|recorded| recorded.complete_since = Some(nanos));
    }

    /// Notes that the engine went away.
    pub(crate) fn lose(&self, seconds: i64) {
        self.with(|recorded| recorded.lost = Some(seconds));
    }

    /// When the engine went away, the last time.
    pub(crate) fn lost(&self) -> Option<i64> {
        self.with(|recorded| recorded.lost)
    }

    /// Adds an event. Leaves out a health check with the same result as before.
    pub(crate) fn record(&self, event: &Event) {
        self.with(|recorded| recorded.push(event.trimmed()));
    }

    /// The events that pass `wanted`, oldest first, and the unix nanoseconds since when all are known.
    pub(crate) fn select(&self, wanted: impl Fn(&Event) -> bool) -> (Vec<Event>, Option<i64>) {
        self.with(|recorded| {
            let events = recorded.events.iter().filter(|event| wanted(event));
            let dropped = recorded.full.iter().filter(|event| wanted(event));
            let complete_since = dropped.map(|event| event.nanos() + 1).max();
            let complete_since = recorded.complete_since.max(complete_since);
            (events.cloned().collect(), complete_since)
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
        let oldest = self.events.iter().position(|other| same(&other));
        if self.events.iter().filter(same).count() >= MAX_EVENTS_OF_ONE
            && let Some(dropped) = oldest.and_then(|at| self.events.remove(at))
        {
            self.full.retain(|other| !same(&other));
            self.full.push(dropped);
        }
        let too_old = event.time - MAX_AGE_SECONDS;
        self.events.push_back(event);
        while let Some(first) = self.events.front()
            && (self.events.len() > MAX_EVENTS || first.time < too_old)
        {
            self.complete_since = self.complete_since.max(Some(first.nanos() + 1));
            self.events.pop_front();
        }
        let known = self.complete_since;
        self.full.retain(|dropped| Some(dropped.nanos()) >= known);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn history(events: impl IntoIterator<Item = (String, &'static str, i64)>) -> History {
        let history = History::default();
        history.begin(5);
        for (id, action, time) in events {
            let labels = json!({"name": id, "exitCode": "3", "secret.label": "canary"});
            let event = json!({"Type": "container", "Action": action, "time": time,
                "timeNano": time * SECOND, "Actor": {"ID": id, "Attributes": labels}});
            history.record(&serde_json::from_value(event).unwrap());
        }
        history
    }

    #[test]
    fn history_is_bounded_and_says_from_when_on_it_is_complete() {
        let of = |history: &History, id: &str| history.select(|event| event.id() == id);
        let loops = (0..2_000).map(|time| ("loop".to_owned(), "die", time));
        let web = ["health_status: healthy", "health_status: healthy", "kill"];
        let web = web.into_iter().zip(2_001..);
        let web = web.map(|(action, time)| ("web".to_owned(), action, time));
        let one_loops = history(loops.clone().chain(web.clone()));
        let (events, since) = of(&one_loops, "loop");
        let first_known = 2_000 - MAX_EVENTS_OF_ONE as i64;
        assert_eq!(
            (events.len(), events[0].time),
            (MAX_EVENTS_OF_ONE, first_known)
        );
        assert_eq!(
            since,
            Some((first_known - 1) * SECOND + 1),
            "older ones were dropped"
        );
        let (events, since) = of(&one_loops, "web");
        let actions: Vec<_> = events.iter().map(|event| &*event.action).collect();
        assert_eq!(actions, ["health_status: healthy", "kill"]);
        assert_eq!(since, Some(5), "none of this one was dropped");
        assert_eq!(events[1].attributes().len(), 2, "labels are not kept");

        let many = (0..MAX_EVENTS).map(|number| (number.to_string(), "die", 3_000));
        let many = loops.chain(web).chain(many).collect::<Vec<_>>();
        let full = history(many.clone());
        let all = full.select(|_| true).0.len();
        assert_eq!((of(&full, "web").0.len(), all), (0, MAX_EVENTS));
        assert_eq!(of(&full, "loop").1, Some(2_003 * SECOND + 1));
        let late = ("late".to_owned(), "die", 3_001 + MAX_AGE_SECONDS);
        let late = history(many.into_iter().chain([late]));
        assert_eq!(late.select(|_| true).0.len(), 1);
    }
}
