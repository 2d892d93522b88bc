//! The properties that hold in every state of the model.

use std::time::Duration;

use super::question::Told;
use super::{Model, State, duration};

/// The longest time for which an ended session is served after a lost notification.
const MAX_REVOCATION_DELAY: Duration = Duration::from_secs(1);
/// The age of the table at which a replica does not count as one that sees the database: more than four steps.
const MAX_READ_AGE: Duration = Duration::from_millis(1_001);
/// The time within which a task whose replica has ended has another owner, or has failed.
const MAX_ORPHAN_TIME: Duration = Duration::from_secs(5);

type Holds = fn(&Model, &State) -> bool;

pub(super) const PROPERTIES: [(&str, Holds); 8] = [
    ("an answer reaches the backend at most once", |_, state| {
        state.question.as_ref().is_none_or(|it| it.deliveries <= 1)
    }),
    ("an accepted answer has reached the backend", |_, state| {
        let question = state.question.as_ref();
        question.is_none_or(|it| it.told != Told::Accepted || it.deliveries > 0)
    }),
    (
        "an answer whose owner is gone has not reached it",
        |_, state| {
            let question = state.question.as_ref();
            question
                .is_none_or(|it| it.told != Told::Gone || it.was_uncertain || it.deliveries == 0)
        },
    ),
    ("only ended and silent replicas are gone", |_, state| {
        let question = state.question.as_ref();
        question.is_none_or(|it| !it.was_wrongly_gone)
    }),
    ("an ended session is served for a second", |_, state| {
        let is_late = |revoked| duration(state.now - revoked) > MAX_REVOCATION_DELAY;
        // A replica that does not see the database says so in `/readyz`, and is excused.
        let may_serve = |at: &usize| {
            let replica = &state.replicas[*at];
            state.reaches_database(*at)
                && replica
                    .members
                    .is_current(duration(state.now), MAX_READ_AGE)
        };
        let mut all = (0..state.replicas.len()).filter(may_serve);
        !state.database.revoked.is_some_and(is_late)
            || all.all(|at| state.replicas[at].knows_revocation)
    }),
    ("a task has one outcome", |_, state| {
        !state.database.was_wronged && !state.was_told_two_outcomes
    }),
    ("a task has one owner", |_, state| {
        let works = |at: &usize| {
            let replica = &state.replicas[*at];
            let sees = replica
                .members
                .is_current(duration(state.now), MAX_READ_AGE);
            replica.task.is_some() && state.reaches_database(*at) && sees
        };
        (0..state.replicas.len()).filter(works).count() <= 1
    }),
    (
        "a task without a replica is adopted, or fails, in 5 s",
        |_, state| {
            let is_late = |since| duration(state.now - since) > MAX_ORPHAN_TIME;
            !state.orphaned.is_some_and(is_late)
        },
    ),
];
