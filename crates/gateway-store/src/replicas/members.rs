//! Decisions about the other replicas, without a socket, a database or a clock: who serves a request whose handle names
//! its owner, when a silent replica counts as gone, and whose tasks may be taken over.
//!
//! Times are those of one monotonic clock of this process, since its start. Beats are only compared with earlier ones
//! of the same replica, so clocks may differ by any amount. The model beside this file runs these functions against
//! crashes, pauses, lost messages and a slow or absent database.

#[cfg(test)]
mod model;

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::server::ReplicaId;

/// Interval at which a replica writes its beat, and reads those of the others and all ended sessions. With the query's
/// own time it bounds the effect of a lost message to a second.
pub(super) const BEAT_INTERVAL: Duration = Duration::from_millis(750);
/// Time after which a replica whose beat does not change is gone: four beats. With the intervals until its last beat was
/// read, and until the next reading, less than five seconds pass.
pub(super) const GONE_AFTER: Duration = Duration::from_secs(3);
/// Time for which a replica keeps what only one may run, such as a child, from its last beat: three beats. It is the
/// time before the beat was sent, by its own clock, which counts also while it is paused.
pub(super) const LEASE: Duration = Duration::from_millis(2_250);
/// Time after which another one may take that from a replica whose beat does not change. A beat may be seen by a query
/// that was sent before it, by [`MAX_READ_GAP`] at most; the rest beyond the lease is for the end of the child.
const TAKE_AFTER: Duration = Duration::from_secs(5);
/// A longer time between two readings is an outage of the database, or a pause of this process.
const MAX_READ_GAP: Duration = Duration::from_millis(1_350);

/// The time of a beat; that of the database. Only its changes mean something.
pub(super) type Beat = i64;

/// This replica's copy of the table, as far as decisions need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Members {
    by_id: BTreeMap<ReplicaId, Member>,
    /// The time at which the last query was sent, not that of its answer: the copy is at least as old.
    read_at: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Member {
    beat: Beat,
    /// The time of the first query with this beat.
    changed_at: Duration,
    /// True if it could not be reached since its last beat.
    is_suspect: bool,
}

/// The replica that serves a request with a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Here,
    /// To its owner, once.
    Forward,
    /// Nowhere: the owner has ended. The client calls again.
    Gone,
    /// Not known before the table was read again: the owner may have started after this copy. If it cannot be
    /// read, the client repeats the request later.
    Refresh,
}

/// The condition of the update that takes a task from its owner, beside that the owner is still the same. The copy
/// is older than the table, and an owner that has been heard of since then works on its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adoption {
    Never,
    /// The row of the owner still has this beat.
    IfBeat(Beat),
    /// The owner has no row, as after a clean stop.
    IfNoRow,
}

impl Members {
    /// Replaces the copy by the answer to a query that was sent at `sent`. After an outage of the database, or a pause of
    /// this process, all replicas that were alive before get time for their next beat.
    pub(super) fn update(
        &mut self,
        rows: impl IntoIterator<Item = (ReplicaId, Beat)>,
        sent: Duration,
    ) {
        let read_before = self.read_at.replace(sent);
        let gap = read_before.map(|before| sent.saturating_sub(before));
        let is_gap = gap.is_some_and(|gap| gap > MAX_READ_GAP);
        let member = |(id, beat)| {
            // Alive at first sight, whatever its age: after an outage of the database all beats are old.
            let new = Member {
                beat,
                changed_at: sent,
                is_suspect: false,
            };
            let old = self.by_id.get(&id).filter(|old| old.beat == beat);
            let member = old.map_or(new, |old| match is_gap && !old.is_silent(read_before) {
                // Its silence cannot be told from that of the database.
                true => Member {
                    changed_at: sent,
                    ..*old
                },
                false => *old,
            });
            (id, member)
        };
        self.by_id = rows.into_iter().map(member).collect();
    }

    /// Remembers that a replica could not be connected to: it counts as gone until its next beat. Not for a connection
    /// that broke after the request was sent, whose effect is unknown.
    pub(super) fn suspect(&mut self, id: ReplicaId) {
        if let Some(member) = self.by_id.get_mut(&id) {
            member.is_suspect = true;
        }
    }

    /// Decides whether this replica may take the tasks of another. One that only this replica cannot reach keeps them,
    /// and so does one with a row that this copy does not have yet.
    pub(super) fn adoption(&self, owner: ReplicaId) -> Adoption {
        match self.by_id.get(&owner) {
            Some(member) if member.is_silent(self.read_at) => Adoption::IfBeat(member.beat),
            None if self.read_at.is_some() => Adoption::IfNoRow,
            _ => Adoption::Never,
        }
    }

    /// Decides whether this replica may take what only one may run from another: later than tasks, once its lease has
    /// ended.
    pub(super) fn takeover(&self, holder: ReplicaId) -> Adoption {
        match self.by_id.get(&holder) {
            Some(member) if member.is_silent_for(TAKE_AFTER, self.read_at) => {
                Adoption::IfBeat(member.beat)
            }
            None if self.read_at.is_some() => Adoption::IfNoRow,
            _ => Adoption::Never,
        }
    }

    /// Returns true once the table was read.
    pub(super) fn is_read(&self) -> bool {
        self.read_at.is_some()
    }

    /// Returns true if the table was read less than `age` ago. If not for long, this replica may serve ended sessions,
    /// and `/readyz` says so.
    pub(super) fn is_current(&self, now: Duration, age: Duration) -> bool {
        now.saturating_sub(self.read_at.unwrap_or_default()) < age
    }

    /// Returns true for a replica that has neither ended nor been silent, as far as this one knows.
    pub(super) fn is_alive(&self, id: ReplicaId) -> bool {
        self.by_id
            .get(&id)
            .is_some_and(|it| it.is_alive(self.read_at))
    }

    /// Returns true for a replica that writes its beats, whether it can be reached or not.
    pub(super) fn is_beating(&self, id: ReplicaId) -> bool {
        let member = self.by_id.get(&id);
        member.is_some_and(|member| !member.is_silent(self.read_at))
    }

    /// Decides who serves a request that arrived at `arrived` with a handle of `owner`, unless another replica has
    /// forwarded it: that one is answered here, or not at all.
    pub(super) fn route(&self, own: ReplicaId, owner: ReplicaId, arrived: Duration) -> Route {
        match self.by_id.get(&owner) {
            _ if owner == own => Route::Here,
            Some(member) if member.is_alive(self.read_at) => Route::Forward,
            Some(_) => Route::Gone,
            None if self.read_at.is_some_and(|read| read >= arrived) => Route::Gone,
            None => Route::Refresh,
        }
    }
}

impl Member {
    fn is_alive(&self, read_at: Option<Duration>) -> bool {
        !self.is_suspect && !self.is_silent(read_at)
    }

    /// Judged at the time of the last reading: while the table cannot be read, time makes no replica gone.
    fn is_silent(&self, read_at: Option<Duration>) -> bool {
        self.is_silent_for(GONE_AFTER, read_at)
    }

    fn is_silent_for(&self, time: Duration, read_at: Option<Duration>) -> bool {
        read_at.is_some_and(|read| read.saturating_sub(self.changed_at) >= time)
    }
}
