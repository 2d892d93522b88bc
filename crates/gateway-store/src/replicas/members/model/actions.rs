//! The events of the model beside the passing of time: faults, and requests of the client.

use super::question::{Question, Told};
use super::{Flaw, Model, Outcome, Replica, ReplicaId, Requests, Run, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Step,
    Crash(usize),
    Start(usize),
    Pause(usize),
    Resume(usize),
    Isolate(usize),
    Connect(usize),
    DatabaseEnds,
    DatabaseStarts,
    DatabaseSlows,
    DatabaseRecovers,
    /// A notification arrives, and begins a beat; one that does not is lost.
    Notify(usize),
    /// The client ends its session at this replica.
    EndSession(usize),
    /// A call at this replica asks the client a question.
    Ask(usize),
    /// The client's answer arrives at this replica.
    Answer(usize),
    /// A forwarded answer arrives at its owner.
    Arrive(usize),
    /// … and its response is lost.
    Break(usize),
    /// The backend ends the task of this replica.
    EndTask(usize),
    WriteOutcome(usize),
    /// The client reads the outcome of the task at this replica.
    GetTask(usize),
}

use Action::{
    Answer, Arrive, Ask, Break, Connect, Crash, DatabaseEnds, DatabaseRecovers, DatabaseSlows,
    DatabaseStarts, EndSession, EndTask, GetTask, Isolate, Notify, Pause, Resume, Start, Step,
    WriteOutcome,
};

/// Answers under way at the same time: a client repeats one whose connection broke.
const MAX_HOPS: usize = 2;

impl Model {
    /// Returns all events that can happen now.
    pub(super) fn possible(&self, state: &State) -> Vec<Action> {
        let mut all = Vec::new();
        if state.now < self.end {
            all.push(Step);
        }
        let may_fail = state.faults > 0;
        match state.database.is_up {
            true if may_fail => all.push(DatabaseEnds),
            true => {}
            false => all.push(DatabaseStarts),
        }
        match state.database.is_slow {
            false if may_fail => all.push(DatabaseSlows),
            false => {}
            true => all.push(DatabaseRecovers),
        }
        for (at, replica) in state.replicas.iter().enumerate() {
            match replica.run {
                Run::Running if may_fail => all.extend([Crash(at), Pause(at)]),
                Run::Running => {}
                Run::Paused => all.push(Resume(at)),
                Run::Crashed => all.push(Start(at)),
            }
            match replica.sees_database {
                true if may_fail => all.push(Isolate(at)),
                true => {}
                false => all.push(Connect(at)),
            }
            if replica.run == Run::Running {
                self.requests_at(state, at, replica, &mut all);
            }
        }
        for at in 0..state.question.as_ref().map_or(0, |it| it.hops.len()) {
            all.extend([Arrive(at), Break(at)]);
        }
        all
    }

    fn requests_at(&self, state: &State, at: usize, replica: &Replica, all: &mut Vec<Action>) {
        let (database, reaches) = (&state.database, state.reaches_database(at));
        let has = |requests| [Requests::All, requests].contains(&self.requests);
        let is_news = database.revoked.is_some() && !replica.knows_revocation;
        // Not while a query is answered, and not at once after another beat.
        let is_free = replica.query.is_none() && replica.last_beat < state.now;
        if is_news && is_free && reaches {
            all.push(Notify(at));
        }
        if has(Requests::Sessions) {
            match database.revoked {
                None if reaches => all.push(EndSession(at)),
                _ => {}
            }
        }
        if has(Requests::Questions) {
            match &state.question {
                None if replica.is_registered || self.is(Flaw::OwnerBeforeRegistered) => {
                    all.push(Ask(at));
                }
                Some(it) if it.told == Told::Nothing && it.hops.len() < MAX_HOPS => {
                    all.push(Answer(at));
                }
                _ => {}
            }
        }
        if has(Requests::Tasks) {
            match replica.task {
                Some(None) => all.push(EndTask(at)),
                Some(Some(_)) if reaches => all.push(WriteOutcome(at)),
                _ => {}
            }
            let is_early = self.is(Flaw::ToldBeforeWritten) && replica.task.flatten().is_some();
            if (reaches && database.outcome.is_some()) || is_early {
                all.push(GetTask(at));
            }
        }
    }

    pub(super) fn perform(&self, state: &mut State, action: Action) {
        match action {
            Crash(_) | Pause(_) | Isolate(_) | DatabaseEnds | DatabaseSlows => {
                state.faults = state.faults.saturating_sub(1);
                state.orphaned = None;
            }
            Start(_) | Resume(_) | Connect(_) | DatabaseStarts => state.orphaned = None,
            _ => {}
        }
        match action {
            Step => self.step(state),
            Crash(at) => state.replicas[at].run = Run::Crashed,
            Start(at) => state.start(at),
            Pause(at) => state.replicas[at].run = Run::Paused,
            Resume(at) => state.replicas[at].run = Run::Running,
            Isolate(at) => state.replicas[at].sees_database = false,
            Connect(at) => state.replicas[at].sees_database = true,
            DatabaseEnds => state.database.is_up = false,
            DatabaseStarts => state.database.is_up = true,
            DatabaseSlows => state.database.is_slow = true,
            DatabaseRecovers => state.database.is_slow = false,
            Notify(at) => self.beat(state, at, true),
            EndSession(at) => {
                state.database.revoked = Some(state.now);
                state.replicas[at].knows_revocation = true;
            }
            Ask(at) => {
                state.replicas[at].holds_question = true;
                state.question = Some(Question::new(state.replicas[at].id));
            }
            Answer(at) => {
                if let Some(question) = &mut state.question {
                    question.was_uncertain |= !question.hops.is_empty();
                }
                self.answer(state, at, false);
            }
            Arrive(hop) => self.arrive(state, hop),
            Break(hop) => self.break_connection(state, hop),
            EndTask(at) => state.replicas[at].task = Some(Some(Outcome::Result)),
            WriteOutcome(at) => self.write_outcome(state, at),
            GetTask(at) => self.get_task(state, at),
        }
    }

    fn write_outcome(&self, state: &mut State, at: usize) {
        let (replica, database) = (&mut state.replicas[at], &mut state.database);
        let outcome = replica.task.take().flatten();
        let is_owner = database.task_owner == replica.id && database.outcome.is_none();
        if is_owner || self.is(Flaw::UnconditionalOutcome) {
            database.was_wronged |= database.outcome.is_some_and(|old| Some(old) != outcome);
            database.outcome = outcome;
        }
    }

    fn get_task(&self, state: &mut State, at: usize) {
        let local = state.replicas[at].task.flatten();
        let early = local.filter(|_| self.is(Flaw::ToldBeforeWritten));
        let told = early.or(state.database.outcome);
        let before = state.told_outcome.replace(told.unwrap_or(Outcome::Failed));
        state.was_told_two_outcomes |= before.is_some() && before != told;
    }
}

impl State {
    fn start(&mut self, at: usize) {
        let sees_database = self.replicas[at].sees_database;
        self.replicas[at] = Replica {
            sees_database,
            ..Replica::new(ReplicaId::new(self.next_id), self.now)
        };
        self.next_id += 1;
    }
}
