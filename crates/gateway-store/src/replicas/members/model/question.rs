//! A question of the model: a call at its owner asks the client, whose answer arrives at any replica.

use std::time::Duration;

use super::{Flaw, Model, Replica, ReplicaId, Run, State, Time, duration};
use crate::replicas::members::{Adoption, Route};

/// The client's knowledge of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Nothing,
    Accepted,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    owner: ReplicaId,
    pub(super) deliveries: u8,
    pub(super) told: Told,
    /// True if an attempt ended without a word of its effect, so that the client repeats it.
    pub(super) was_uncertain: bool,
    /// True if the owner had neither ended nor been silent when the client was told that it is gone.
    pub(super) was_wrongly_gone: bool,
    /// The replicas that have forwarded an answer and wait for the owner's response.
    pub(super) hops: Vec<usize>,
}

impl Question {
    pub(super) fn new(owner: ReplicaId) -> Self {
        Self {
            owner,
            deliveries: 0,
            told: Told::Nothing,
            was_uncertain: false,
            was_wrongly_gone: false,
            hops: Vec::new(),
        }
    }
}

impl Model {
    /// An answer at a replica, which passes it on to the backend or to the owner.
    pub(super) fn answer(&self, state: &mut State, at: usize, is_forwarded: bool) {
        // After everything that has happened in this step.
        let arrived = duration(state.now) + Duration::from_nanos(1);
        let reaches = state.reaches_database(at);
        let Some(owner) = state.question.as_ref().map(|question| question.owner) else {
            return;
        };
        let decide = |it: &Replica| match is_forwarded {
            // For a process that had this address before.
            true if it.id != owner => Route::Gone,
            true => Route::Here,
            false => it.members.route(it.id, owner, arrived),
        };
        let mut route = decide(&state.replicas[at]);
        if route == Route::Refresh && self.is(Flaw::NoRefresh) {
            route = Route::Gone;
        } else if route == Route::Refresh && reaches && !state.database.is_slow {
            // All that a heartbeat reads: one that has read only this table knows of no revocation.
            if !self.is(Flaw::RefreshesOnlyMembers) {
                self.beat(state, at, false);
            }
            let rows = state.database.replicas.clone();
            state.replicas[at].members.update(rows, arrived);
            route = decide(&state.replicas[at]);
        }
        let (Some(question), replica) = (state.question.as_mut(), &mut state.replicas[at]) else {
            return;
        };
        match route {
            Route::Here if replica.holds_question || self.is(Flaw::RepeatedAnswer) => {
                replica.holds_question = false;
                question.deliveries += 1;
                question.told = Told::Accepted;
            }
            // Taken before, by an attempt of which the client has not heard.
            Route::Here => question.told = Told::Accepted,
            Route::Forward => question.hops.push(at),
            Route::Gone => state.tell_gone(),
            Route::Refresh => {}
        }
    }

    /// A forwarded answer arrives, and the response reaches the client.
    pub(super) fn arrive(&self, state: &mut State, hop: usize) {
        let (from, at) = state.end_hop(hop);
        match at.map(|at| (at, state.replicas[at].run)) {
            Some((at, Run::Running)) => {
                let before = state.question.clone();
                self.answer(state, at, true);
                if state.replicas[from].run == Run::Crashed {
                    state.make_uncertain(before);
                }
            }
            // Its port is closed, or another process has it.
            None | Some((_, Run::Crashed)) => {
                if let Some(question) = &state.question {
                    state.replicas[from].members.suspect(question.owner);
                }
                state.tell_gone();
            }
            Some((_, Run::Paused)) => state.make_uncertain(state.question.clone()),
        }
        if self.is(Flaw::AdoptsFromSuspect) {
            let owner = state.database.task_owner;
            let beat = state.database.replicas.get(&owner).copied();
            let condition = beat.map_or(Adoption::IfNoRow, Adoption::IfBeat);
            self.adopt(state, from, owner, condition);
        }
    }

    /// The connection breaks after the owner has read the answer, and before the response.
    pub(super) fn break_connection(&self, state: &mut State, hop: usize) {
        let (_, at) = state.end_hop(hop);
        let before = state.question.clone();
        if let Some(at) = at.filter(|at| state.replicas[*at].run == Run::Running) {
            self.answer(state, at, true);
        }
        state.make_uncertain(before);
        if let Some(question) = state
            .question
            .as_mut()
            .filter(|_| self.is(Flaw::BrokenIsGone))
        {
            (question.told, question.was_uncertain) = (Told::Gone, false);
        }
    }
}

impl State {
    fn tell_gone(&mut self) {
        let Some(owner) = self.question.as_ref().map(|question| question.owner) else {
            return;
        };
        // A copy may be as old as the connection to the database.
        let is_gone = self.is_gone(owner, Time::MAX);
        if let Some(question) = &mut self.question {
            question.was_wrongly_gone |= !is_gone;
            // A client that has repeated its answer takes the first response.
            if question.told == Told::Nothing {
                question.told = Told::Gone;
            }
        }
    }

    /// Returns the replica that has forwarded, and the owner.
    fn end_hop(&mut self, hop: usize) -> (usize, Option<usize>) {
        let question = self.question.as_mut();
        let (from, owner) =
            question.map_or((0, ReplicaId::new(0)), |it| (it.hops.remove(hop), it.owner));
        (from, self.replica(owner))
    }

    /// The client hears nothing of an attempt.
    fn make_uncertain(&mut self, before: Option<Question>) {
        if let (Some(question), Some(before)) = (&mut self.question, before) {
            question.told = before.told;
            question.was_uncertain = true;
        }
    }
}
