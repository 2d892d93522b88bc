//! The replicas as this one sees them, with what [`Members`] decides about them: pure, so that every order of events can
//! be tested.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use mcp_core::server::{Place, ReplicaId};

use super::ReplicaStatus;
use super::members::{Adoption, Beat, GONE_AFTER, Members, Route};

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct PeerRow {
    pub(super) id: ReplicaId,
    pub(super) address: Option<Arc<str>>,
    pub(super) version: Arc<str>,
    pub(super) has_same_key: bool,
    /// The time of its last beat; that of the database.
    pub(super) beat: Beat,
}

struct Peer {
    row: PeerRow,
    /// True once its beat has changed: it runs, or ran, at the same time as this one.
    has_beaten: bool,
}

/// The replicas as this one sees them.
pub(super) struct Peers {
    own: ReplicaId,
    by_id: BTreeMap<ReplicaId, Peer>,
    members: Members,
    /// The zero of the times of [`Members`].
    start: Instant,
    is_away: bool,
}

impl Peers {
    pub(super) fn new(own: ReplicaId) -> Self {
        Self {
            own,
            by_id: BTreeMap::new(),
            members: Members::default(),
            start: Instant::now(),
            is_away: false,
        }
    }

    /// Takes over the rows of the table, by a query that was sent at `now`.
    pub(super) fn update(&mut self, rows: Vec<PeerRow>, now: Instant) {
        let beats = rows.iter().map(|row| (row.id, row.beat));
        let sent = now.saturating_duration_since(self.start);
        self.members.update(beats, sent);
        let before = std::mem::take(&mut self.by_id);
        let peer = |row: PeerRow| {
            let known = before.get(&row.id);
            let has_beaten =
                known.is_some_and(|known| known.has_beaten || known.row.beat != row.beat);
            (row.id, Peer { row, has_beaten })
        };
        self.by_id = rows.into_iter().map(peer).collect();
        self.is_away = false;
    }

    /// Notes that the table could not be read at `now`.
    pub(super) fn miss(&mut self, now: Instant) {
        self.is_away = !self.is_current(now);
    }

    pub(super) fn is_without_database(&self) -> bool {
        self.is_away
    }

    /// Decides whether this replica may take the tasks of another.
    pub(super) fn adoption(&self, owner: ReplicaId) -> Adoption {
        self.members.adoption(owner)
    }

    /// Returns true if the others cannot have counted this replica as gone.
    pub(super) fn is_current(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.start);
        self.members.is_current(now, GONE_AFTER)
    }

    /// Returns the decisions about the others.
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// Returns true once the own row is in the table.
    pub(super) fn has_joined(&self) -> bool {
        self.by_id.contains_key(&self.own)
    }

    /// Returns another replica that runs with the same address.
    pub(super) fn rival(&self) -> Option<(ReplicaId, Arc<str>)> {
        let own = self.by_id.get(&self.own)?.row.address.clone()?;
        let mut others = self.by_id.values().filter(|peer| peer.row.id != self.own);
        let rival = others.find(|peer| {
            peer.has_beaten
                && self.members.is_beating(peer.row.id)
                && peer.row.address.as_ref() == Some(&own)
        })?;
        Some((rival.row.id, own))
    }

    pub(super) fn suspect(&mut self, id: ReplicaId) {
        self.members.suspect(id);
    }

    /// Returns true for a replica that no request can be forwarded to.
    pub(super) fn is_gone(&self, id: ReplicaId) -> bool {
        self.members.is_read() && id != self.own && !self.is_usable(id)
    }

    /// Returns the place of what the replica has made, by the table as it was read last.
    pub(super) fn last_place(&self, id: ReplicaId) -> Place {
        self.place(id, self.start)
    }

    /// Returns the place of what the replica has made, for a request that arrived at `arrived`.
    pub(super) fn place(&self, id: ReplicaId, arrived: Instant) -> Place {
        let arrived = arrived.saturating_duration_since(self.start);
        match self.members.route(self.own, id, arrived) {
            Route::Here => Place::Here,
            Route::Forward if self.is_usable(id) => Place::There(id),
            Route::Forward | Route::Gone => Place::Gone,
            Route::Refresh => Place::Unknown(id),
        }
    }

    /// Returns the replica that has made the session while it is alive, else the one that all replicas with the same
    /// table agree on.
    pub(super) fn home(&self, session: u128, arrived: Instant) -> Place {
        let maker = self.place(ReplicaId::from_handle(session), arrived);
        if maker != Place::Gone {
            return maker;
        }
        let alive = self.others().into_iter().chain([self.own]);
        let home = alive.max_by_key(|id| weight(session, *id));
        match home.filter(|home| *home != self.own) {
            Some(home) => Place::There(home),
            None => Place::Here,
        }
    }

    pub(super) fn address(&self, id: ReplicaId) -> Option<Arc<str>> {
        self.by_id.get(&id)?.row.address.clone()
    }

    pub(super) fn others(&self) -> Vec<ReplicaId> {
        let ids = self.by_id.keys().copied();
        ids.filter(|id| *id != self.own && self.is_usable(*id))
            .collect()
    }

    pub(super) fn count_others(&self) -> u32 {
        let others = self.by_id.keys().copied();
        let others = others.filter(|id| *id != self.own && self.is_usable(*id));
        u32::try_from(others.count()).unwrap_or(u32::MAX - 1)
    }

    pub(super) fn list(&self) -> Vec<ReplicaStatus> {
        let status = |peer: &Peer| ReplicaStatus {
            id: peer.row.id,
            address: peer.row.address.clone(),
            version: Arc::clone(&peer.row.version),
            is_alive: peer.row.id == self.own || self.members.is_alive(peer.row.id),
            has_same_key: peer.row.has_same_key,
        };
        self.by_id.values().map(status).collect()
    }

    /// Returns true if a request can be forwarded to it.
    fn is_usable(&self, id: ReplicaId) -> bool {
        let is_usable = |peer: &Peer| peer.row.has_same_key && peer.row.address.is_some();
        self.by_id.get(&id).is_some_and(is_usable) && self.members.is_alive(id)
    }
}

/// The weight of a replica for a session (rendezvous hashing): only the sessions of a replica that comes or goes get
/// another home. The steps are those of splitmix64.
fn weight(session: u128, id: ReplicaId) -> u64 {
    let [low, high] = [session, session >> 64].map(|part| (part & u128::from(u64::MAX)) as u64);
    let id = u64::from(id.bits());
    let mut mixed = low ^ high.rotate_left(32) ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BEAT: Duration = Duration::from_millis(750);

    fn id(bits: u32) -> ReplicaId {
        ReplicaId::new(bits)
    }

    fn row(bits: u32, beat: i64) -> PeerRow {
        PeerRow {
            id: id(bits),
            address: Some("http://127.0.0.1:1".into()),
            version: "1".into(),
            has_same_key: true,
            beat,
        }
    }

    #[test]
    fn replica_without_beats_is_gone_after_three_seconds_and_back_with_the_next() {
        let (mut peers, start) = (Peers::new(id(1)), Instant::now());
        peers.update(vec![row(1, 0), row(2, 0)], start);
        for beat in 0..8_u32 {
            peers.update(vec![row(1, 0), row(2, 0)], start + BEAT * beat);
            let expected = match beat < 4 {
                true => Place::There(id(2)),
                false => Place::Gone,
            };
            assert_eq!(peers.place(id(2), start), expected, "{beat}");
        }
        peers.update(vec![row(1, 0), row(2, 1)], start + BEAT * 8);
        assert_eq!(peers.place(id(2), start), Place::There(id(2)));
        assert_eq!(peers.place(id(1), start), Place::Here);
        peers.update(vec![row(1, 0)], start + BEAT * 9);
        assert_eq!(peers.place(id(2), start), Place::Gone);
    }

    #[test]
    fn replica_that_is_not_in_the_table_may_have_started_since_it_was_read() {
        let (mut peers, start) = (Peers::new(id(1)), Instant::now());
        let session = id(2).handle(7);
        assert_eq!(peers.place(id(2), start), Place::Unknown(id(2)));
        assert!(!peers.is_gone(id(2)));
        peers.update(vec![row(1, 0)], start + SECOND);
        for arrived in [start, start + SECOND] {
            assert_eq!(peers.place(id(2), arrived), Place::Gone);
            assert_eq!(peers.home(session, arrived), Place::Here);
        }
        let later = start + SECOND * 2;
        assert_eq!(peers.place(id(2), later), Place::Unknown(id(2)));
        assert_eq!(peers.home(session, later), Place::Unknown(id(2)));
        assert!(peers.is_gone(id(2)));
        peers.update(vec![row(1, 1), row(2, 0)], later);
        assert_eq!(peers.place(id(2), later + SECOND), Place::There(id(2)));
        assert_eq!(peers.home(session, later), Place::There(id(2)));
    }

    #[test]
    fn no_replica_is_gone_because_the_database_was_away() {
        let (mut peers, start) = (Peers::new(id(1)), Instant::now());
        peers.update(vec![row(2, 0)], start);
        for second in 1..60 {
            peers.miss(start + SECOND * second);
            assert_eq!(peers.is_without_database(), second >= 3, "{second}");
        }
        assert_eq!(peers.place(id(2), start), Place::There(id(2)));
        // The other one had no chance to write a beat.
        peers.update(vec![row(2, 0)], start + SECOND * 60);
        assert_eq!(peers.place(id(2), start), Place::There(id(2)));
        assert!(!peers.is_without_database());
        for beat in 1..=4 {
            peers.update(vec![row(2, 0)], start + SECOND * 60 + BEAT * beat);
        }
        assert_eq!(peers.place(id(2), start), Place::Gone);
    }

    #[test]
    fn suspect_is_gone_until_its_next_beat_and_one_with_another_key_is_not_used() {
        let (mut peers, start) = (Peers::new(id(1)), Instant::now());
        peers.update(vec![row(3, 0)], start);
        peers.suspect(id(3));
        assert_eq!(peers.others(), []);
        peers.update(vec![row(3, 0)], start + SECOND);
        assert_eq!(peers.others(), []);
        peers.update(vec![row(3, 1)], start + SECOND * 2);
        assert_eq!(peers.others(), [id(3)]);
        let foreign = PeerRow {
            has_same_key: false,
            ..row(4, 0)
        };
        peers.update(vec![foreign], start + SECOND * 3);
        assert_eq!(peers.others(), []);
    }

    #[test]
    fn rival_is_one_that_beats_with_the_same_address() {
        let (mut peers, start) = (Peers::new(id(1)), Instant::now());
        let other = PeerRow {
            address: Some("http://127.0.0.1:2".into()),
            ..row(3, 1)
        };
        // It may have ended without a word before this one began.
        peers.update(vec![row(1, 0), row(2, 0)], start);
        peers.update(vec![row(1, 1), row(2, 0), other], start + BEAT);
        assert_eq!(peers.rival(), None);
        peers.update(vec![row(1, 2), row(2, 1)], start + BEAT * 2);
        assert_eq!(peers.rival(), Some((id(2), "http://127.0.0.1:1".into())));
        for beat in 3..=6 {
            peers.update(vec![row(1, 3), row(2, 1)], start + BEAT * beat);
        }
        assert_eq!(peers.rival(), None, "it has ended");
    }

    #[test]
    fn replicas_agree_on_a_new_home_and_others_keep_theirs() {
        let table = |rows: &[u32], own| {
            let mut peers = Peers::new(id(own));
            let rows = rows.iter().map(|bits| row(*bits, 0)).collect();
            peers.update(rows, Instant::now());
            peers
        };
        let home = |peers: &Peers, session| match peers.home(session, peers.start) {
            Place::Here => peers.own,
            Place::There(id) => id,
            Place::Unknown(_) | Place::Gone => panic!("no home"),
        };
        let all = [1, 2, 3].map(|own| table(&[1, 2, 3], own));
        let two = [1, 2].map(|own| table(&[1, 2], own));
        let mut counts = [0; 2];
        for number in 0..1_000_u128 {
            let session = id(3).handle(number * 0x1234_5678_9abc_def1);
            assert!(all.iter().all(|peers| home(peers, session) == id(3)));
            let new = home(&two[0], session);
            assert_eq!(home(&two[1], session), new);
            counts[usize::from(new == id(2))] += 1;
            let own = id(1).handle(number);
            assert_eq!(home(&two[1], own), id(1));
        }
        assert!(counts.iter().all(|count| *count > 400), "{counts:?}");
    }
}
