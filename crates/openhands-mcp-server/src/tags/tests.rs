//! Unit tests of the tags.

use std::time::Duration;

use upstream::time::Timestamp;

use super::*;
use crate::budget::{Budget, TaskLimits};

fn tags(pairs: [(&str, &str); 1]) -> ConversationTags {
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    ConversationTags::new(pairs.into())
}

#[test]
fn tags_round_trip_and_foreign_tags_stay() {
    let mut tags = tags([("team", "a")]);
    let command = Uuid::from_u128(7);
    tags.set_fetch(Some(command));
    let (iterations, seconds) = (1, 60);
    tags.set_budget(&Budget {
        iterations,
        seconds,
        cost: Some(0.25),
    });
    tags.set_stop_reason(Some(StopReason::Time));
    let mut tags = ConversationTags::new(tags.as_tags().clone());
    assert_eq!(tags.fetch(), Some(command));
    assert_eq!((tags.seconds(), tags.cost()), (Some(60), Some(0.25)));
    assert_eq!(tags.stop_reason(), Some(StopReason::Time));
    assert_eq!(tags.deadline(), None);
    tags.begin_run();
    assert_eq!((tags.fetch(), tags.stop_reason()), (None, None));
    let left = tags.deadline().unwrap().duration_since(Timestamp::now());
    assert!((50..=60).contains(&left.as_secs()) && !tags.is_overdue());
    assert_eq!(tags.get("team"), Some("a"));
}

#[test]
fn time_limit_is_of_all_runs() {
    let mut tags = tags([("mcpseconds", "60")]);
    tags.begin_run();
    let deadline = tags.deadline().unwrap();
    tags.end_run_at(deadline - Duration::from_secs(20));
    assert_eq!((tags.deadline(), tags.seconds_left()), (None, Some(20)));
    tags.begin_run();
    let left = tags.deadline().unwrap().duration_since(Timestamp::now());
    assert!((10..=20).contains(&left.as_secs()));
    tags.end_run_at(tags.deadline().unwrap() + Duration::from_secs(5));
    assert_eq!(tags.seconds_left(), Some(0));
    let (steps, cost) = (None, None);
    let seconds = Some(90);
    tags.continue_with(&TaskLimits {
        steps,
        seconds,
        cost,
    });
    assert_eq!((tags.seconds(), tags.seconds_left()), (Some(90), Some(30)));
}

#[test]
fn base_must_be_hexadecimal() {
    assert_eq!(tags([("mcpbase", "HEAD; x")]).base(), None);
}
