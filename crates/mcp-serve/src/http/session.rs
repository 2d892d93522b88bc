//! Sessions of the legacy era (specification, "Session Management").
//!
//! A session id is no key into a table but a signed description of the session: what `initialize`
//! agreed on, when, and for whom. So a session survives a restart of the server and is known to
//! every replica with the same key, and an `initialize` that nobody uses costs nothing.
//!
//! Only what lives is kept: requests in flight, open questions, subscriptions, revocations.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_core::revision::Revision;
use mcp_core::server::{Connection, Negotiated};
use mcp_core::sign::Signer;
use mcp_core::tool::ClientCapabilities;

use super::events::ReplayPolicy;

/// After this long a client must initialize again.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// A replica's clock may be this far ahead, and ours may step back as far.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);
/// Sessions with something alive at the same time; the oldest make room.
const MAX_LIVE: usize = 10_000;
/// Ended sessions that are remembered until they would have expired; the oldest make room.
const MAX_REVOKED: usize = 100_000;

pub(super) struct Sessions {
    signer: Signer,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    /// With the serial number of its opening.
    connections: HashMap<String, (u64, Arc<Connection>)>,
    next_serial: u64,
    revoked: HashMap<String, ()>,
    revoked_order: VecDeque<String>,
}

/// A session that a request belongs to. Forgets what it no longer needs when it is dropped.
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

    /// The id of a new session of `principal`.
    pub(super) fn mint(&self, agreed: Negotiated, principal: &str) -> Option<String> {
        let mut payload = Vec::with_capacity(26);
        let revision = Revision::ALL
            .iter()
            .position(|revision| *revision == agreed.revision)?;
        let ClientCapabilities {
            elicitation,
            url_elicitation,
            sampling,
            roots,
        } = agreed.capabilities;
        payload.push(u8::try_from(revision).ok()?);
        let flags = [elicitation, sampling, roots, url_elicitation];
        let flags = flags
            .iter()
            .rev()
            .fold(0, |all, flag| all << 1 | u8::from(*flag));
        payload.push(flags);
        payload.extend_from_slice(&now().to_le_bytes());
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        payload.extend_from_slice(&random);
        Some(self.signer.seal(&purpose(principal), &payload))
    }

    /// The session with this id, if it is one of `principal`'s and has not ended. The same answer
    /// for all others, so that an id tells nothing to whom it does not belong.
    pub(super) fn open(self: &Arc<Self>, id: &str, principal: &str) -> Option<Session> {
        let agreed = self.read(id, principal)?;
        let mut live = self.live();
        if live.revoked.contains_key(id) {
            return None;
        }
        let connection = match live.connections.get(id) {
            Some((_, connection)) => Arc::clone(connection),
            None => live.add(id, Connection::from_negotiated(agreed)),
        };
        drop(live);
        Some(Session {
            sessions: Arc::clone(self),
            id: id.to_owned(),
            connection,
        })
    }

    /// Ends a session; false if there is none to end.
    pub(super) fn end(&self, id: &str, principal: &str) -> bool {
        if self.read(id, principal).is_none() {
            return false;
        }
        let mut live = self.live();
        if let Some((_, connection)) = live.connections.remove(id) {
            connection.end();
        }
        if live.revoked.insert(id.to_owned(), ()).is_some() {
            return false;
        }
        live.revoked_order.push_back(id.to_owned());
        if live.revoked.len() > MAX_REVOKED
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
        let age = age(u64::from_le_bytes(*issued), now())?;
        let capabilities = ClientCapabilities {
            elicitation: capabilities & 1 != 0,
            sampling: capabilities & 2 != 0,
            roots: capabilities & 4 != 0,
            url_elicitation: capabilities & 8 != 0,
        };
        let revision = *Revision::ALL.get(usize::from(revision))?;
        (age <= LIFETIME).then_some(Negotiated {
            revision,
            capabilities,
        })
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn add(&mut self, id: &str, connection: Connection) -> Arc<Connection> {
        let connection = Arc::new(connection);
        self.next_serial += 1;
        let entry = (self.next_serial, Arc::clone(&connection));
        self.connections.insert(id.to_owned(), entry);
        if self.connections.len() > MAX_LIVE {
            let oldest = self
                .connections
                .iter()
                .min_by_key(|(_, (serial, _))| *serial);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.connections.remove(&oldest);
            }
        }
        connection
    }
}

impl Session {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// How streams of this session are replayed.
    pub(super) fn replay_policy(&self, keep_alive: Duration) -> ReplayPolicy {
        let agreed = self.connection.negotiated();
        ReplayPolicy {
            session: self.id.clone(),
            polls: agreed.is_some_and(|agreed| agreed.revision >= Revision::V2025_11_25),
            keep_alive,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut live = self.sessions.live();
        // Held by the table and by us: nobody else works on it.
        if Arc::strong_count(&self.connection) <= 2 && self.connection.is_idle() {
            live.connections.remove(&self.id);
        }
    }
}

fn purpose(principal: &str) -> String {
    format!("session of {principal}")
}

/// Returns the age of a session; `None` if it comes from further in the future than clocks may differ.
fn age(issued: u64, now: u64) -> Option<Duration> {
    let is_skewed = issued.saturating_sub(now) > MAX_CLOCK_SKEW.as_secs();
    (!is_skewed).then(|| Duration::from_secs(now.saturating_sub(issued)))
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREED: Negotiated = Negotiated {
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
    fn a_session_survives_its_server_and_belongs_to_its_principal() {
        let id = sessions(1).mint(AGREED, "alice").unwrap();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        let replica = sessions(1);
        assert_eq!(
            replica.open(&id, "alice").unwrap().connection.negotiated(),
            Some(AGREED)
        );
        assert!(replica.open(&id, "bob").is_none());
        assert!(sessions(2).open(&id, "alice").is_none());
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
    fn what_is_idle_is_not_kept_and_what_has_ended_stays_ended() {
        let sessions = sessions(1);
        let id = sessions.mint(AGREED, "").unwrap();
        let session = sessions.open(&id, "").unwrap();
        assert_eq!(sessions.live().connections.len(), 1);
        drop(session);
        assert!(sessions.live().connections.is_empty());
        assert!(sessions.end(&id, ""));
        assert!(!sessions.end(&id, ""));
        assert!(sessions.open(&id, "").is_none());
    }
}
