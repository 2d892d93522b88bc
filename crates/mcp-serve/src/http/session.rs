//! Sessions of the legacy era (specification, "Session Management").
//!
//! A session id is not a key into a table, but a signed description of the session: the result of the
//! negotiation, its time, and the principal. So a session survives a restart of the server and is valid
//! on every replica with the same key, and an unused session takes no memory.
//!
//! Kept in memory are only requests in flight, open questions to clients, subscriptions and revocations.

use std::collections::{HashMap, HashSet, VecDeque};
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
/// Sessions in memory at the same time. Beyond that, the oldest of the client with the most sessions is removed:
/// a client that opens many ends its own and no other's.
const MAX_LIVE_SESSIONS: usize = 10_000;
/// Ended sessions that are remembered until they would have expired. Beyond that, the oldest of the client with
/// the most is forgotten.
const MAX_REVOKED_SESSIONS: usize = 100_000;

pub(super) struct Sessions {
    signer: Signer,
    live: Mutex<LiveSessions>,
}

#[derive(Default)]
struct LiveSessions {
    /// By session id.
    connections: HashMap<String, LiveSession>,
    next_serial: u64,
    revoked: RevokedSessions,
}

/// The sessions that have ended.
#[derive(Default)]
struct RevokedSessions {
    ids: HashSet<String>,
    /// The same ids, oldest first, by client.
    by_client: HashMap<String, VecDeque<String>>,
}

struct LiveSession {
    /// Ascending with the time at which it was opened.
    serial: u64,
    /// The client that its place counts for: its token, or its address where no token is required.
    client: String,
    connection: Arc<Connection>,
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
    /// and ended ids are indistinguishable. `client` names the one that its place in memory counts for.
    pub(super) fn open(
        self: &Arc<Self>,
        id: &str,
        principal: &str,
        client: impl FnOnce() -> String,
    ) -> Option<Session> {
        let negotiated = self.read(id, principal)?;
        let mut live = self.live.lock();
        if live.revoked.ids.contains(id) {
            return None;
        }
        let connection = match live.connections.get(id) {
            Some(live) => Arc::clone(&live.connection),
            None => live.add(id, client(), Connection::from_negotiated(negotiated)),
        };
        drop(live);
        Some(Session {
            sessions: Arc::clone(self),
            id: id.to_owned(),
            connection,
        })
    }

    /// Ends a session of `client`. Returns false if it is unknown or has ended before.
    pub(super) fn end(&self, id: &str, principal: &str, client: String) -> bool {
        if self.read(id, principal).is_none() {
            return false;
        }
        let mut live = self.live.lock();
        if let Some(ended) = live.connections.remove(id) {
            ended.connection.end();
        }
        live.revoked.add(id, client)
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
    fn add(&mut self, id: &str, client: String, connection: Connection) -> Arc<Connection> {
        let connection = Arc::new(connection.of_session(id));
        self.next_serial += 1;
        let session = LiveSession {
            serial: self.next_serial,
            client,
            connection: Arc::clone(&connection),
        };
        self.connections.insert(id.to_owned(), session);
        if self.connections.len() > MAX_LIVE_SESSIONS
            && let Some(oldest) = self.oldest_of_the_largest_client()
            && let Some(removed) = self.connections.remove(&oldest)
        {
            // Otherwise its stream would stay open after the end of the session.
            removed.connection.end();
        }
        connection
    }

    fn oldest_of_the_largest_client(&self) -> Option<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for session in self.connections.values() {
            *counts.entry(&session.client).or_default() += 1;
        }
        let (largest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let of_client = self
            .connections
            .iter()
            .filter(|(_, session)| session.client == largest);
        let (oldest, _) = of_client.min_by_key(|(_, session)| session.serial)?;
        Some(oldest.clone())
    }
}

impl RevokedSessions {
    /// Adds a session; false if it has ended before.
    fn add(&mut self, id: &str, client: String) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        let of_client = self.by_client.entry(client).or_default();
        of_client.push_back(id.to_owned());
        if self.ids.len() > MAX_REVOKED_SESSIONS {
            let largest = self.by_client.values_mut().max_by_key(|ids| ids.len());
            if let Some(oldest) = largest.and_then(VecDeque::pop_front) {
                self.ids.remove(&oldest);
            }
            self.by_client.retain(|_, ids| !ids.is_empty());
        }
        true
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
mod tests;
