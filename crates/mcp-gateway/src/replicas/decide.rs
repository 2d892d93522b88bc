//! Decisions about the other replicas, without a clock, a socket or a database: who serves a request whose
//! handle names its owner, when a silent replica counts as gone, and whether this one is ready.
//!
//! Times are those of one monotonic clock of this process. Heartbeats are only compared with earlier ones, so
//! clocks may differ by any amount. The model beside this file runs these functions against crashes, pauses, lost
//! messages and a slow or absent database.

#[cfg(test)]
mod model;

use std::collections::BTreeMap;
use std::time::Duration;

/// The interval at which a replica writes its heartbeat, and reads those of the others and all revocations. With
/// the query's own time it bounds the effect of a lost message to a second.
pub(crate) const BEAT_INTERVAL: Duration = Duration::from_millis(750);
/// A replica whose heartbeat has not changed for this time is gone. Three may be late, and its tasks are adopted,
/// or fail, within 5 s.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(3);
/// A longer gap between two readings is an outage of the database, or a pause of this process.
pub(crate) const MAX_READ_GAP: Duration = Duration::from_secs(1);

/// The id of one process of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReplicaId(pub(crate) u32);

/// A heartbeat as the database has it; only its changes mean something.
pub(crate) type Beat = i64;

/// This replica's copy of the table of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Members {
    peers: BTreeMap<ReplicaId, Peer>,
    /// The time at which the query was sent, not that of its answer: the copy is at least as old.
    read_at: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Peer {
    beat: Beat,
    /// The time of the first query with this beat.
    changed_at: Duration,
    is_suspect: bool,
}

/// The replica that serves a request with a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
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
pub(crate) enum Adoption {
    Never,
    /// The owner still has this heartbeat.
    IfBeat(Beat),
    /// The owner has no row, as after a clean stop.
    IfNoRow,
}

impl Members {
    /// Replaces the copy by the answer to a query that was sent at `sent`.
    pub(crate) fn update(
        &mut self,
        rows: impl IntoIterator<Item = (ReplicaId, Beat)>,
        sent: Duration,
    ) {
        let read_before = self.read_at.replace(sent);
        let gap = read_before.map(|before| sent.saturating_sub(before));
        let is_gap = gap.is_some_and(|gap| gap > MAX_READ_GAP);
        let peer = |(id, beat)| {
            // At first sight it is alive whatever its age: after an outage of the database all beats are old.
            let new = Peer {
                beat,
                changed_at: sent,
                is_suspect: false,
            };
            let old = self.peers.get(&id).filter(|old| old.beat == beat);
            let peer = old.map_or(new, |old| match is_gap && !old.is_silent(read_before) {
                // Its silence cannot be told from that of the database.
                true => Peer {
                    changed_at: sent,
                    ..*old
                },
                false => *old,
            });
            (id, peer)
        };
        self.peers = rows.into_iter().map(peer).collect();
    }

    /// Remembers that a replica could not be connected to: it counts as gone until its next heartbeat. Not for a
    /// connection that broke after the request was sent, whose effect is unknown.
    pub(crate) fn suspect(&mut self, id: ReplicaId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.is_suspect = true;
        }
    }

    /// Decides whether this replica may take the tasks of another. One that only this replica cannot reach keeps
    /// them.
    pub(crate) fn adoption(&self, owner: ReplicaId) -> Adoption {
        match self.peers.get(&owner) {
            Some(peer) if peer.is_silent(self.read_at) => Adoption::IfBeat(peer.beat),
            None if self.read_at.is_some() => Adoption::IfNoRow,
            _ => Adoption::Never,
        }
    }

    /// Returns true if this replica sees the table, so that revocations of another reach it within a second. If
    /// not, it may serve ended sessions, and `/readyz` says so.
    pub(crate) fn is_current(&self, now: Duration) -> bool {
        let read = self.read_at;
        read.is_some_and(|read| now.saturating_sub(read) <= MAX_READ_GAP)
    }

    /// Decides who serves a request that arrived at `arrived` with a handle of `owner`.
    pub(crate) fn route(
        &self,
        me: ReplicaId,
        owner: ReplicaId,
        is_forwarded: bool,
        arrived: Duration,
    ) -> Route {
        if owner == me {
            return Route::Here;
        }
        // Forwarded to this address for a process that had it before.
        if is_forwarded {
            return Route::Gone;
        }
        match self.peers.get(&owner) {
            Some(peer) if peer.is_suspect || peer.is_silent(self.read_at) => Route::Gone,
            Some(_) => Route::Forward,
            None if self.read_at.is_some_and(|read| read >= arrived) => Route::Gone,
            None => Route::Refresh,
        }
    }
}

impl Peer {
    /// Judged at the time of the last reading: while the table cannot be read, time makes no replica gone.
    fn is_silent(&self, read_at: Option<Duration>) -> bool {
        read_at.is_some_and(|read| read.saturating_sub(self.changed_at) >= GONE_AFTER)
    }
}
