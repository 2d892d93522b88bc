//! A model of replicas, their database and one client, in steps of 250 ms: replicas crash, start again, pause and
//! lose the database, which ends or slows down; notifications are lost, and connections between replicas break.
//! Everything that the gateway decides there is decided by the functions of [`super`].
//!
//! `tests` searches all runs with a few faults, then long ones by chance; [`Flaw`] makes the model wrong in the
//! ways that these tests must notice.

mod actions;
mod properties;
mod question;
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::server::ReplicaId;

use super::{Adoption, BEAT_INTERVAL, Beat, GONE_AFTER, Members};
use question::Question;

const STEP: Duration = Duration::from_millis(250);

/// A count of steps since the begin.
type Time = i16;

fn duration(steps: Time) -> Duration {
    STEP * u32::try_from(steps).unwrap_or_default()
}

fn steps(duration: Duration) -> Time {
    Time::try_from(duration.as_millis() / STEP.as_millis()).unwrap()
}

/// A mistake in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Old heartbeats count also right after an outage of the database.
    HastyAfterOutage,
    /// An owner that is not in the copy is gone, without another look.
    NoRefresh,
    /// That look is at the table of replicas only.
    RefreshesOnlyMembers,
    /// Handles are given out before the replica is in the table.
    OwnerBeforeRegistered,
    /// Tasks of a replica are adopted when a connection to it fails.
    AdoptsFromSuspect,
    /// Tasks are adopted from a replica that has been heard of since.
    AdoptsWithOldCopy,
    /// Two replicas adopt a task without comparing its owner.
    AdoptsUnconditionally,
    /// A replica goes on with its tasks after a pause in which another adopted them.
    KeepsAdoptedTask,
    /// An outcome is written also when another owns the task by now.
    UnconditionalOutcome,
    /// An owner tells the outcome before it is written.
    ToldBeforeWritten,
    /// Revocations are read with hastened heartbeats only.
    OnlyNotifications,
    /// An answer is passed on each time that it arrives.
    RepeatedAnswer,
    /// An answer that may have arrived counts as not delivered.
    BrokenIsGone,
}

/// The requests of the client; a search of all runs has only those of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    All,
    Questions,
    Sessions,
    Tasks,
}

#[derive(Clone, Debug)]
struct Model {
    replicas: usize,
    requests: Requests,
    /// True if the backend has an id of the task, by which another replica goes on.
    task_is_adoptable: bool,
    flaw: Option<Flaw>,
    faults: u8,
    end: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Run {
    Running,
    Paused,
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Result,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    id: ReplicaId,
    run: Run,
    is_registered: bool,
    sees_database: bool,
    members: Members,
    last_beat: Time,
    /// The last time at which it alone was silent for so long that others may think that it has ended.
    silent_at: Option<Time>,
    /// The answer to a query that is slow.
    query: Option<Query>,
    knows_revocation: bool,
    holds_question: bool,
    /// The task that it works on, with its outcome.
    task: Option<Option<Outcome>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Query {
    sent: Time,
    rows: BTreeMap<ReplicaId, Beat>,
    is_revoked: bool,
    task_owner: ReplicaId,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Database {
    is_up: bool,
    is_slow: bool,
    replicas: BTreeMap<ReplicaId, Beat>,
    revoked: Option<Time>,
    task_owner: ReplicaId,
    outcome: Option<Outcome>,
    /// True if an outcome was replaced, or a task adopted whose replica was neither ended nor silent.
    was_wronged: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: Time,
    faults: u8,
    next_id: u32,
    replicas: Vec<Replica>,
    database: Database,
    question: Option<Question>,
    told_outcome: Option<Outcome>,
    was_told_two_outcomes: bool,
    /// The time since which the owner of the task does not run, without a further fault.
    orphaned: Option<Time>,
}

impl Model {
    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn initial(&self) -> State {
        let ids = (1..).map(ReplicaId::new).take(self.replicas);
        let mut replicas: Vec<_> = ids.clone().map(|id| Replica::new(id, 0)).collect();
        for replica in &mut replicas {
            replica.is_registered = true;
        }
        replicas[0].task = Some(None);
        State {
            now: 0,
            faults: self.faults,
            next_id: 1 + u32::try_from(self.replicas).unwrap(),
            replicas,
            database: Database {
                is_up: true,
                is_slow: false,
                replicas: ids.map(|id| (id, 0)).collect(),
                revoked: None,
                task_owner: ReplicaId::new(1),
                outcome: None,
                was_wronged: false,
            },
            question: None,
            told_outcome: None,
            was_told_two_outcomes: false,
            orphaned: None,
        }
    }

    /// The work of one step: heartbeats, readings, and adoptions.
    fn step(&self, state: &mut State) {
        state.now += 1;
        for at in 0..self.replicas {
            let replica = &mut state.replicas[at];
            // An outage for all is not the silence of one.
            let is_cut_off = replica.run == Run::Paused || !replica.sees_database;
            if is_cut_off && state.now - replica.last_beat >= steps(GONE_AFTER - BEAT_INTERVAL) {
                replica.silent_at = Some(state.now);
            }
            if replica.run != Run::Running {
                continue;
            }
            let query = state.replicas[at].query.take();
            if !state.reaches_database(at) {
                continue;
            }
            if let Some(query) = query {
                self.apply(state, at, query);
            }
            if state.now - state.replicas[at].last_beat >= steps(BEAT_INTERVAL) {
                self.beat(state, at, false);
            }
        }
        let is_owner = |it: &Replica| it.id == state.database.task_owner && it.run != Run::Crashed;
        let is_orphan = state.database.outcome.is_none() && !state.replicas.iter().any(is_owner);
        let has_adopter = (0..self.replicas).any(|at| state.reaches_database(at));
        state.orphaned = match is_orphan && has_adopter {
            true => state.orphaned.or(Some(state.now)),
            false => None,
        };
    }

    /// One transaction: writes the heartbeat, and reads all rows. A notification hastens it.
    fn beat(&self, state: &mut State, at: usize, is_hastened: bool) {
        let (now, replica, database) = (state.now, &mut state.replicas[at], &mut state.database);
        replica.last_beat = now;
        replica.is_registered = true;
        database.replicas.insert(replica.id, now.into());
        let query = Query {
            sent: now,
            rows: database.replicas.clone(),
            is_revoked: database.revoked.is_some()
                && (is_hastened || !self.is(Flaw::OnlyNotifications)),
            task_owner: database.task_owner,
        };
        match database.is_slow {
            true => replica.query = Some(query),
            false => self.apply(state, at, query),
        }
    }

    fn apply(&self, state: &mut State, at: usize, query: Query) {
        let replica = &mut state.replicas[at];
        if self.is(Flaw::HastyAfterOutage) {
            // Readings without a gap, as far as the copy knows.
            for sent in replica.last_beat - steps(GONE_AFTER)..query.sent {
                let rows = query.rows.clone();
                replica.members.update(rows, duration(sent.max(0)));
            }
        }
        replica.members.update(query.rows, duration(query.sent));
        replica.knows_revocation |= query.is_revoked;
        // Adopted by another in a pause of this replica.
        if query.task_owner != replica.id && !self.is(Flaw::KeepsAdoptedTask) {
            replica.task = None;
        }
        if replica.id != query.task_owner {
            let condition = replica.members.adoption(query.task_owner);
            self.adopt(state, at, query.task_owner, condition);
        }
    }

    /// One update with all conditions.
    fn adopt(&self, state: &mut State, at: usize, from: ReplicaId, condition: Adoption) {
        let beat = state.database.replicas.get(&from).copied();
        let holds = match condition {
            Adoption::Never => false,
            Adoption::IfBeat(seen) => beat == Some(seen) || self.is(Flaw::AdoptsWithOldCopy),
            Adoption::IfNoRow => beat.is_none(),
        };
        if !holds || !state.reaches_database(at) {
            return;
        }
        // A slow query was answered a step ago.
        let is_gone = state.is_gone(from, 2);
        let database = &mut state.database;
        let is_unchanged = database.task_owner == from || self.is(Flaw::AdoptsUnconditionally);
        if !is_unchanged || database.outcome.is_some() {
            return;
        }
        database.was_wronged |= !is_gone;
        if self.task_is_adoptable {
            database.task_owner = state.replicas[at].id;
            state.replicas[at].task = Some(None);
        } else {
            database.outcome = Some(Outcome::Failed);
        }
    }
}

impl Replica {
    fn new(id: ReplicaId, now: Time) -> Self {
        Self {
            id,
            run: Run::Running,
            is_registered: false,
            sees_database: true,
            members: Members::default(),
            // The first one comes with the next step.
            last_beat: now - steps(BEAT_INTERVAL),
            silent_at: None,
            query: None,
            knows_revocation: false,
            holds_question: false,
            task: None,
        }
    }
}

impl State {
    fn reaches_database(&self, at: usize) -> bool {
        let replica = &self.replicas[at];
        self.database.is_up && replica.sees_database && replica.run == Run::Running
    }

    fn replica(&self, id: ReplicaId) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.id == id)
    }

    /// Returns true if the replica has ended, or was silent in the last steps.
    fn is_gone(&self, id: ReplicaId, last: Time) -> bool {
        let is_gone = |at: usize| {
            let Replica { run, silent_at, .. } = &self.replicas[at];
            let was_silent = silent_at.is_some_and(|silent| self.now - silent <= last);
            *run == Run::Crashed || was_silent
        };
        self.replica(id).is_none_or(is_gone)
    }
}
