//! The search for runs of the model that break a property.

use stateright::{Checker as _, Model as _, Property};

use super::actions::Action;
use super::properties::PROPERTIES;
use super::question::Told;
use super::{Flaw, Model, Requests, Run, State, Time};

const SEEDS: u64 = 10_000;
/// The length of a run by chance: 30 s.
const RANDOM_END: Time = 120;

impl stateright::Model for Model {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.initial()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.possible(state));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.perform(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = PROPERTIES.iter();
        all.map(|(name, holds)| Property::always(name, *holds))
            .collect()
    }
}

/// A generator of numbers by its seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// Runs the model by chance and returns the first property that does not hold, with the events before.
fn broken(model: &Model, seed: u64) -> Option<(&'static str, Vec<Action>)> {
    let (mut random, mut state, mut events) = (Random(seed), model.initial(), Vec::new());
    // Some runs have many events in a step, others one in some seconds.
    let calm = 1 + random.below(12);
    while state.now < model.end {
        let possible = model.possible(&state);
        let action = match random.below(calm + 1) {
            0 => possible[random.below(possible.len())],
            _ => Action::Step,
        };
        model.perform(&mut state, action);
        events.push(action);
        let mut all = PROPERTIES.iter();
        if let Some((name, _)) = all.find(|(_, holds)| !holds(model, &state)) {
            return Some((name, events));
        }
    }
    is_stuck(model, state).then_some(("every answer has an end", events))
}

/// Returns true if the answer of a client that repeats it is still unknown after all faults are over.
fn is_stuck(model: &Model, mut state: State) -> bool {
    state.database.is_up = true;
    state.database.is_slow = false;
    for replica in &mut state.replicas {
        replica.sees_database = true;
        if replica.run == Run::Paused {
            replica.run = Run::Running;
        }
    }
    for _ in 0..40 {
        model.perform(&mut state, Action::Step);
    }
    let has_hop = |state: &State| {
        state
            .question
            .as_ref()
            .is_some_and(|it| !it.hops.is_empty())
    };
    let running = (0..model.replicas).filter(|at| state.replicas[*at].run == Run::Running);
    running.collect::<Vec<_>>().into_iter().any(|at| {
        while has_hop(&state) {
            model.perform(&mut state, Action::Arrive(0));
        }
        let is_open = |state: &State| {
            let question = state.question.as_ref();
            question.is_some_and(|it| it.told == Told::Nothing)
        };
        if is_open(&state) {
            model.perform(&mut state, Action::Answer(at));
        }
        while has_hop(&state) {
            model.perform(&mut state, Action::Arrive(0));
        }
        is_open(&state)
    })
}

fn random(flaw: Option<Flaw>, seed: u64) -> Model {
    Model {
        replicas: 3,
        requests: Requests::All,
        task_is_adoptable: seed.is_multiple_of(2),
        flaw,
        faults: 12,
        end: RANDOM_END,
    }
}

#[test]
fn no_answer_is_lost_or_doubled_in_10000_runs_by_chance() {
    for seed in 0..SEEDS {
        let broken = broken(&random(None, seed), seed);
        assert!(broken.is_none(), "seed {seed}: {broken:?}");
    }
}

/// Every run of 5.5 s with one fault, for each kind of requests.
#[test]
fn no_run_with_one_fault_breaks_a_property() {
    for (requests, task_is_adoptable) in [
        (Requests::Questions, true),
        (Requests::Sessions, true),
        (Requests::Tasks, true),
        (Requests::Tasks, false),
    ] {
        let model = Model {
            replicas: 2,
            requests,
            task_is_adoptable,
            flaw: None,
            faults: 1,
            end: 22,
        };
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        // A model in which nothing happens breaks no property.
        assert!(checker.unique_state_count() > 10_000, "{requests:?}");
    }
}

/// A model that finds nothing shows nothing.
#[test]
fn every_flaw_is_found() {
    for (flaw, property) in [
        (Flaw::HastyAfterOutage, "only ended"),
        (Flaw::NoRefresh, "only ended"),
        (Flaw::RefreshesOnlyMembers, "an ended session"),
        (Flaw::OwnerBeforeRegistered, "only ended"),
        (Flaw::AdoptsFromSuspect, "a task has one outcome"),
        (Flaw::AdoptsWithOldCopy, "a task has one owner"),
        (Flaw::AdoptsUnconditionally, "a task has one"),
        (Flaw::KeepsAdoptedTask, "a task has one owner"),
        (Flaw::UnconditionalOutcome, "a task has one outcome"),
        (Flaw::ToldBeforeWritten, "a task has one outcome"),
        (Flaw::OnlyNotifications, "an ended session"),
        (Flaw::RepeatedAnswer, "an answer reaches"),
        (Flaw::BrokenIsGone, "an answer whose owner"),
    ] {
        let find = |seed| broken(&random(Some(flaw), seed), seed);
        let mut found = (0..SEEDS).filter_map(find);
        let found = found.find(|(name, _)| name.starts_with(property));
        assert!(found.is_some(), "{flaw:?}");
    }
}
