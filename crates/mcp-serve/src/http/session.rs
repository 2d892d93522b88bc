//! Sessions of the legacy era (specification, "Session Management").
//!
//! A session id is not a key into a table, but a signed description of the session: the result of the
//! negotiation, its time, and the principal. So a session survives a restart of the server and is valid
//! on every replica with the same key, and an unused session takes no memory.
//!
//! Kept in memory are only requests in flight, open questions to clients, subscriptions and revocations.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mcp_core::revision::Revision;
use mcp_core::server::{Connection, Negotiated};
use mcp_core::sign::Signer;
use mcp_core::tool::ClientCapabilities;
use parking_lot::Mutex;

use super::events::ReplayPolicy;
use crate::clock::unix_time;
use crate::key::random;

/// A client must initialize again after this time.
const SESSION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Limit by which the clock of a replica may be ahead, and by which ours may step back.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);
/// Sessions in memory at the same time; the oldest are removed.
const MAX_LIVE_SESSIONS: usize = 10_000;
/// Ended sessions that are remembered until they would have expired; the oldest are removed.
const MAX_REVOKED_SESSIONS: usize = 100_000;

pub(super) struct Sessions {
    signer: Signer,
    live: Mutex<LiveSessions>,
}

#[derive(Default)]
struct LiveSessions {
    /// By session id, each with a serial number.
    connections: HashMap<String, (u64, Arc<Connection>)>,
    next_serial: u64,
    revoked: HashMap<String, ()>,
    revoked_order: VecDeque<String>,
}

/// The session of a request. When dropped, an idle session is removed from memory.
pub(super) struct Session {
    sessions: Arc<Sessions>,
    id: String,
    pub(super) connection: Arc<Connection>,
}

impl Sessions {
    pub(super) fn new(signer: Signer) -> Self {
        Self {
            signer,
            live: Mutex::default(),
        }
    }

    /// Returns the id of a new session of `principal`.
    pub(super) fn create_id(&self, negotiated: Negotiated, principal: &str) -> Option<String> {
        self.create_id_at(negotiated, principal, unix_time())
    }

    fn create_id_at(
        &self,
        negotiated: Negotiated,
        principal: &str,
        now: Duration,
    ) -> Option<String> {
        let mut payload = Vec::with_capacity(26);
        let revision = Revision::ALL
            .iter()
            .position(|revision| *revision == negotiated.revision)?;
        let ClientCapabilities {
            elicitation,
            url_elicitation,
            sampling,
            roots,
        } = negotiated.capabilities;
        payload.push(u8::try_from(revision).ok()?);
        let flags = [elicitation, sampling, roots, url_elicitation];
        let flags = flags
            .iter()
            .rev()
            .fold(0, |all, flag| all << 1 | u8::from(*flag));
        payload.push(flags);
        payload.extend_from_slice(&now.as_secs().to_le_bytes());
        payload.extend_from_slice(&random()?.to_ne_bytes());
        Some(self.signer.seal(&purpose(principal), &payload))
    }

    /// Opens the session with this id if it belongs to `principal` and has not ended. Unknown, foreign
    /// and ended ids are indistinguishable.
    pub(super) fn open(self: &Arc<Self>, id: &str, principal: &str) -> Option<Session> {
        let negotiated = self.read(id, principal)?;
        let mut live = self.live.lock();
        if live.revoked.contains_key(id) {
            return None;
        }
        let connection = match live.connections.get(id) {
            Some((_, connection)) => Arc::clone(connection),
            None => live.add(id, Connection::from_negotiated(negotiated)),
        };
        drop(live);
        Some(Session {
            sessions: Arc::clone(self),
            id: id.to_owned(),
            connection,
        })
    }

    /// Ends a session. Returns false if it is unknown or has ended before.
    pub(super) fn end(&self, id: &str, principal: &str) -> bool {
        if self.read(id, principal).is_none() {
            return false;
        }
        let mut live = self.live.lock();
        if let Some((_, connection)) = live.connections.remove(id) {
            connection.end();
        }
        if live.revoked.insert(id.to_owned(), ()).is_some() {
            return false;
        }
        live.revoked_order.push_back(id.to_owned());
        if live.revoked.len() > MAX_REVOKED_SESSIONS
            && let Some(oldest) = live.revoked_order.pop_front()
        {
            live.revoked.remove(&oldest);
        }
        true
    }

    fn read(&self, id: &str, principal: &str) -> Option<Negotiated> {
        let payload = self.signer.open(&purpose(principal), id)?;
        let (&[revision, capabilities], rest) = payload.split_first_chunk()?;
        let (issued, _) = rest.split_first_chunk()?;
        let age = age(u64::from_le_bytes(*issued), unix_time().as_secs())?;
        let capabilities = ClientCapabilities {
            elicitation: capabilities & 1 != 0,
            sampling: capabilities & 2 != 0,
            roots: capabilities & 4 != 0,
            url_elicitation: capabilities & 8 != 0,
        };
        let revision = *Revision::ALL.get(usize::from(revision))?;
        (age <= SESSION_LIFETIME).then_some(Negotiated {
            revision,
            capabilities,
        })
    }
}

impl LiveSessions {
    fn add(&mut self, id: &str, connection: Connection) -> Arc<Connection> {
        let connection = Arc::new(connection.of_session(id));
        self.next_serial += 1;
        let entry = (self.next_serial, Arc::clone(&connection));
        self.connections.insert(id.to_owned(), entry);
        if self.connections.len() > MAX_LIVE_SESSIONS {
            let oldest = self
                .connections
                .iter()
                .min_by_key(|(_, (serial, _))| *serial);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone())
                && let Some((_, removed)) = self.connections.remove(&oldest)
            {
                // Otherwise its stream would stay open after the end of the session.
                removed.end();
            }
        }
        connection
    }
}

impl Session {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the policy for streams of this session.
    pub(super) fn replay_policy(&self, keep_alive: Duration) -> ReplayPolicy {
        let negotiated = self.connection.negotiated();
        ReplayPolicy {
            session: self.id.clone(),
            polls: negotiated
                .is_some_and(|negotiated| negotiated.revision >= Revision::V2025_11_25),
            keep_alive,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut live = self.sessions.live.lock();
        // Held by the table and by this request alone.
        if Arc::strong_count(&self.connection) <= 2 && self.connection.is_idle() {
            live.connections.remove(&self.id);
        }
    }
}

fn purpose(principal: &str) -> String {
    format!("session of {principal}")
}

/// Returns the age of a session; `None` if it was issued later than clocks may differ.
fn age(issued: u64, now: u64) -> Option<Duration> {
    let is_skewed = issued.saturating_sub(now) > MAX_CLOCK_SKEW.as_secs();
    (!is_skewed).then(|| Duration::from_secs(now.saturating_sub(issued)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEGOTIATED: Negotiated = Negotiated {
        revision: Revision::V2025_06_18,
        capabilities: ClientCapabilities {
            elicitation: true,
            url_elicitation: true,
            sampling: false,
            roots: true,
        },
    };

    fn sessions(key: u8) -> Arc<Sessions> {
        Arc::new(Sessions::new(Signer::new([key; 32])))
    }

    #[test]
    fn session_survives_a_restart_and_belongs_to_its_principal() {
        let id = sessions(1).create_id(NEGOTIATED, "alice").unwrap();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        let replica = sessions(1);
        let session = replica.open(&id, "alice").unwrap();
        assert_eq!(session.connection.negotiated(), Some(NEGOTIATED));
        assert_eq!(session.id(), id);
        assert!(replica.open(&id, "bob").is_none());
        assert!(!replica.end(&id, "bob"));
        assert!(sessions(2).open(&id, "alice").is_none());
        assert!(replica.open(&id, "alice").is_some());
    }

    #[test]
    fn result_of_the_negotiation_is_part_of_the_id() {
        let sessions = sessions(1);
        for (revision, polls) in Revision::ALL.into_iter().zip([false, false, false, true]) {
            for flags in 0..16 {
                let has = |bit| flags & bit != 0;
                let capabilities = ClientCapabilities {
                    elicitation: has(1),
                    url_elicitation: has(2),
                    sampling: has(4),
                    roots: has(8),
                };
                let negotiated = Negotiated {
                    revision,
                    capabilities,
                };
                let id = sessions.create_id(negotiated, "").unwrap();
                let session = sessions.open(&id, "").unwrap();
                assert_eq!(session.connection.negotiated(), Some(negotiated));
                let policy = session.replay_policy(Duration::from_secs(7));
                assert_eq!((policy.session, policy.polls), (id, polls), "{revision:?}");
                assert_eq!(policy.keep_alive, Duration::from_secs(7));
            }
        }
    }

    #[test]
    fn clocks_may_differ_by_five_minutes() {
        let now = 1_000_000;
        assert_eq!(age(now, now), Some(Duration::ZERO));
        assert_eq!(age(now + 300, now), Some(Duration::ZERO));
        assert_eq!(age(now + 301, now), None);
        assert_eq!(age(now - 300, now), Some(Duration::from_secs(300)));
        assert_eq!(age(u64::MAX, now), None);
    }

    #[test]
    fn session_lasts_a_week() {
        let (sessions, week) = (sessions(1), Duration::from_secs(604_800));
        let minute = Duration::from_secs(60);
        for (issued, is_valid) in [
            (unix_time() - week + minute, true),
            (unix_time() - week - minute, false),
            (unix_time() + 4 * minute, true),
            (unix_time() + 6 * minute, false),
        ] {
            let id = sessions.create_id_at(NEGOTIATED, "", issued).unwrap();
            assert_eq!(sessions.open(&id, "").is_some(), is_valid, "{issued:?}");
        }
    }

    #[test]
    fn oldest_session_loses_its_stream_if_there_are_too_many() {
        let sessions = sessions(1);
        let mut open = Vec::new();
        for _ in 0..=MAX_LIVE_SESSIONS {
            let id = sessions.create_id(NEGOTIATED, "").unwrap();
            let session = sessions.open(&id, "").unwrap();
            let stream = open.is_empty().then(|| session.connection.replace_stream());
            open.push((session, stream));
        }
        assert!(open[0].1.as_ref().unwrap().is_cancelled());
        assert_eq!(sessions.live.lock().connections.len(), MAX_LIVE_SESSIONS);
    }

    #[test]
    fn connections_of_a_session_have_one_id() {
        let sessions = sessions(1);
        let ids = [(); 2].map(|()| sessions.create_id(NEGOTIATED, "").unwrap());
        // Each object is dropped before the next one is made, so it may have the same address.
        let open = |id: &str| sessions.open(id, "").unwrap().connection.id();
        assert_eq!(open(&ids[0]), open(&ids[0]));
        assert_ne!(open(&ids[0]), open(&ids[1]));
        assert_ne!(Connection::default().id(), Connection::default().id());
    }

    #[test]
    fn idle_sessions_are_not_kept_and_ended_ones_stay_ended() {
        let sessions = sessions(1);
        let id = sessions.create_id(NEGOTIATED, "").unwrap();
        let session = sessions.open(&id, "").unwrap();
        let same = sessions.open(&id, "").unwrap();
        assert!(Arc::ptr_eq(&session.connection, &same.connection));
        drop(session);
        // Another request of the session is under way.
        assert_eq!(sessions.live.lock().connections.len(), 1);
        drop(same);
        assert!(sessions.live.lock().connections.is_empty());
        assert!(sessions.end(&id, ""));
        assert!(!sessions.end(&id, ""));
        assert!(sessions.open(&id, "").is_none());
    }

    #[test]
    fn table_of_live_sessions_drops_the_oldest() {
        let mut live = LiveSessions::default();
        for number in 0..=MAX_LIVE_SESSIONS {
            assert!(number < MAX_LIVE_SESSIONS || live.connections.contains_key("0"));
            live.add(&number.to_string(), Connection::from_negotiated(NEGOTIATED));
        }
        assert_eq!(live.connections.len(), MAX_LIVE_SESSIONS);
        assert!(!live.connections.contains_key("0"));
    }

    #[test]
    fn table_of_ended_sessions_drops_the_oldest() {
        let sessions = sessions(1);
        let [first, second] = [(); 2].map(|()| sessions.create_id(NEGOTIATED, "").unwrap());
        assert!(sessions.end(&first, ""));
        let ended = |count| {
            let others = (1..count).map(|number| number.to_string());
            let mut live = sessions.live.lock();
            for id in others {
                live.revoked_order.push_back(id.clone());
                live.revoked.insert(id, ());
            }
        };
        ended(MAX_REVOKED_SESSIONS - 1);
        assert!(sessions.end(&second, ""));
        assert_eq!(sessions.live.lock().revoked.len(), MAX_REVOKED_SESSIONS);
        assert!(sessions.open(&first, "").is_none());
        let third = sessions.create_id(NEGOTIATED, "").unwrap();
        assert!(sessions.end(&third, ""));
        assert_eq!(sessions.live.lock().revoked.len(), MAX_REVOKED_SESSIONS);
        assert!(sessions.open(&second, "").is_none());
        assert!(sessions.open(&first, "").is_some());
    }
}
