//! Sessions of the legacy era (specification, "Session Management").
//!
//! A session id is not a key into a table, but a signed description of the session: the result of the
//! negotiation, its time, and its owner: the principal in its view (`HttpRequest::owner`). So a session survives a restart
//! of the server and is valid in every process with the same key, and memory for sessions has a limit.
//!
//! Kept in memory are requests in flight, open questions to clients, subscriptions, and the sessions that were used, as
//! many as there is room for; kept in a file ([`ended`]) are those that a client has ended.

mod ended;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_core::clock::unix_time;
use mcp_core::revision::Revision;
use mcp_core::server::{ClientName, Connection, Negotiated};
use mcp_core::sign::Signer;
use mcp_core::tool::ClientCapabilities;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use self::ended::{EndedFile, EndedSession, EndedSessions};
use super::events::ReplayPolicy;
use crate::key::{handle, process_id};

/// A client must initialize again after this time.
const SESSION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Limit by which the clock of another process may be ahead, and by which ours may step back.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);
/// Sessions in memory at the same time. Beyond that, those that lose nothing are removed, and if there are none, the
/// oldest of the client with the most sessions: a client that opens many ends its own and no other's.
const MAX_LIVE_SESSIONS: usize = 10_000;

/// The random bytes in a session id.
const RANDOM_BYTES: usize = 16;

pub(super) struct Sessions {
    signer: Signer,
    live: Mutex<LiveSessions>,
    /// `None` where the end of a session is kept elsewhere, or need not be.
    file: Option<EndedFile>,
}

#[derive(Default)]
struct LiveSessions {
    by_id: HashMap<Arc<str>, Arc<Session>>,
    next_serial: u64,
    ended: EndedSessions,
}

/// A session that is open. As long as it or its connection is held, the session is in use.
pub(super) struct Session {
    id: Arc<str>,
    /// Ascending with the time at which it was opened.
    serial: u64,
    /// The client that its place counts for: its token, or its address where no token is required.
    client: String,
    /// The facts that its id was checked for.
    verified: VerifiedId,
    /// True if this process may serve it; set once that is known, where other processes may serve it, too.
    is_claimed: OnceCell<bool>,
    pub(super) connection: Arc<Connection>,
}

/// The content of a session id.
#[derive(Clone, Debug, PartialEq)]
struct VerifiedId {
    owner: String,
    negotiated: Negotiated,
    /// A keyed hash of the id, which traces show: the id itself opens the session.
    number: u64,
    /// Seconds since 1970, and random bits that begin with the id of the process that has made it.
    issued: u64,
    handle: u128,
}

impl Sessions {
    /// Sessions with ids that `signer` signs. The file with this path keeps those that were ended.
    pub(super) fn new(signer: Signer, ended: Option<PathBuf>) -> Self {
        let file = ended.map(EndedFile::new);
        let live = LiveSessions {
            ended: file.as_ref().map(EndedSessions::read).unwrap_or_default(),
            ..LiveSessions::default()
        };
        Self {
            signer,
            live: Mutex::new(live),
            file,
        }
    }

    /// The number of sessions in memory.
    pub(super) fn len(&self) -> usize {
        self.live.lock().by_id.len()
    }

    /// Returns the id of a new session of `owner`.
    pub(super) fn create_id(&self, negotiated: Negotiated, owner: &str) -> Option<String> {
        self.create_id_at(negotiated, owner, unix_time())
    }

    fn create_id_at(&self, negotiated: Negotiated, owner: &str, now: Duration) -> Option<String> {
        let mut payload = Vec::with_capacity(26 + negotiated.client.as_str().len());
        let revision = Revision::ALL
            .iter()
            .position(|revision| *revision == negotiated.revision)?;
        let ClientCapabilities {
            elicitation,
            url_elicitation,
            sampling,
            roots,
            structured_only,
        } = negotiated.capabilities;
        let client = negotiated.client;
        payload.push(u8::try_from(revision).ok()?);
        let flags = [
            elicitation,
            sampling,
            roots,
            url_elicitation,
            structured_only,
        ];
        let flags = flags
            .iter()
            .rev()
            .fold(0, |all, flag| all << 1 | u8::from(*flag));
        payload.push(flags);
        payload.extend_from_slice(&now.as_secs().to_le_bytes());
        payload.extend_from_slice(&handle()?.to_be_bytes());
        payload.extend_from_slice(client.as_str().as_bytes());
        Some(self.signer.seal(&purpose(owner), &payload))
    }

    /// Opens the session with this id if it belongs to `owner` and has not ended. Unknown, foreign
    /// and ended ids are indistinguishable. `client` names the one that its place in memory counts for.
    pub(super) fn open(
        &self,
        id: &str,
        owner: &str,
        client: impl FnOnce() -> String,
    ) -> Option<Arc<Session>> {
        let known = self.live.lock().find(id, owner);
        if known.is_some() {
            return known;
        }
        let verified = self.verify(id, owner)?;
        let mut live = self.live.lock();
        if live.ended.contains(verified.handle) {
            return None;
        }
        // Another request may have opened it meanwhile.
        let known = live.find(id, owner);
        Some(known.unwrap_or_else(|| live.add(id, client(), verified)))
    }

    /// Ends a session of `client`. Returns false if it is unknown or has ended before.
    pub(super) fn end(&self, id: &str, owner: &str, client: &str) -> bool {
        let Some(VerifiedId { handle, issued, .. }) = self.verify(id, owner) else {
            return false;
        };
        let session = EndedSession {
            handle,
            issued,
            client: self.signer.number("client", client.as_bytes()),
        };
        let is_new = {
            let mut live = self.live.lock();
            live.end(id);
            live.ended.add(session)
        };
        if let (Some(file), true) = (&self.file, is_new) {
            file.add(session);
        }
        is_new
    }

    /// Checks the signature of an id, and that it has not expired.
    fn verify(&self, id: &str, owner: &str) -> Option<VerifiedId> {
        let payload = self.signer.open(&purpose(owner), id)?;
        let (&[revision, capabilities], rest) = payload.split_first_chunk()?;
        let (issued, rest) = rest.split_first_chunk()?;
        // Ids of earlier versions end with the random bytes.
        let client = rest.get(RANDOM_BYTES..).unwrap_or_default();
        let capabilities = ClientCapabilities {
            elicitation: capabilities & 1 != 0,
            sampling: capabilities & 2 != 0,
            roots: capabilities & 4 != 0,
            url_elicitation: capabilities & 8 != 0,
            structured_only: capabilities & 16 != 0,
        };
        let verified = VerifiedId {
            owner: owner.to_owned(),
            negotiated: Negotiated {
                revision: *Revision::ALL.get(usize::from(revision))?,
                capabilities,
                client: ClientName::new(str::from_utf8(client).unwrap_or_default()),
            },
            number: self.signer.number("session number", id.as_bytes()),
            issued: u64::from_le_bytes(*issued),
            handle: u128::from_be_bytes(*rest.first_chunk::<RANDOM_BYTES>()?),
        };
        verified.is_valid_at(unix_time()).then_some(verified)
    }
}

impl VerifiedId {
    fn is_valid_at(&self, now: Duration) -> bool {
        age(self.issued, now.as_secs()).is_some_and(|age| age <= SESSION_LIFETIME)
    }
}

impl LiveSessions {
    /// Returns the session with this id if it is in memory and belongs to `owner`.
    fn find(&self, id: &str, owner: &str) -> Option<Arc<Session>> {
        let session = self.by_id.get(id)?;
        let verified = &session.verified;
        let is_open = verified.owner == owner && verified.is_valid_at(unix_time());
        is_open.then(|| Arc::clone(session))
    }

    fn add(&mut self, id: &str, client: String, verified: VerifiedId) -> Arc<Session> {
        let VerifiedId {
            number, negotiated, ..
        } = &verified;
        let connection = Connection::of_session(*number, process_id(), negotiated.clone());
        self.next_serial += 1;
        let session = Arc::new(Session {
            id: id.into(),
            serial: self.next_serial,
            client,
            verified,
            is_claimed: OnceCell::new(),
            connection: Arc::new(connection),
        });
        // In use from now on.
        let opened = Arc::clone(&session);
        self.by_id.insert(Arc::clone(&session.id), session);
        if self.by_id.len() > MAX_LIVE_SESSIONS {
            self.remove_unused();
        }
        if self.by_id.len() > MAX_LIVE_SESSIONS
            && let Some(oldest) = self.oldest_of_the_largest_client()
        {
            self.end(&oldest);
        }
        opened
    }

    /// Removes a session from memory. Its stream would otherwise stay open after the end of the session.
    fn end(&mut self, id: &str) {
        if let Some(removed) = self.by_id.remove(id) {
            removed.connection.end();
        }
    }

    /// Removes all sessions that lose nothing by that, and expired ones.
    fn remove_unused(&mut self) {
        let now = unix_time();
        let unused =
            |live: &Arc<Session>| Session::is_unused(live) || !live.verified.is_valid_at(now);
        for (_, removed) in self.by_id.extract_if(|_, live| unused(live)) {
            removed.connection.end();
        }
    }

    fn oldest_of_the_largest_client(&self) -> Option<Arc<str>> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for session in self.by_id.values() {
            *counts.entry(&session.client).or_default() += 1;
        }
        let (largest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let sessions = self.by_id.values();
        let of_client = sessions.filter(|session| session.client == largest);
        let oldest = of_client.min_by_key(|session| session.serial)?;
        Some(Arc::clone(&oldest.id))
    }
}

impl Session {
    /// True if no request uses it, and its id says everything about it.
    fn is_unused(self: &Arc<Self>) -> bool {
        let is_held = Arc::strong_count(self) > 1 || Arc::strong_count(&self.connection) > 1;
        !is_held && self.connection.is_idle()
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(super) fn handle(&self) -> u128 {
        self.verified.handle
    }

    /// Returns true if this process may serve it, by `claim`, which is asked once.
    pub(super) async fn is_claimed<'a>(&self, claim: impl FnOnce() -> BoxFuture<'a, bool>) -> bool {
        *self.is_claimed.get_or_init(claim).await
    }

    /// Returns the policy for streams of this session, whose events name a request.
    pub(super) fn replay_policy(&self, request: Option<String>) -> ReplayPolicy {
        let negotiated = self.connection.negotiated();
        ReplayPolicy {
            session: Arc::clone(&self.id),
            polls: negotiated
                .is_some_and(|negotiated| negotiated.revision >= Revision::V2025_11_25),
            request,
        }
    }
}

fn purpose(owner: &str) -> String {
    format!("session of {owner}")
}

/// Returns the age of a session; `None` if it was issued later than clocks may differ.
fn age(issued: u64, now: u64) -> Option<Duration> {
    let is_skewed = issued.saturating_sub(now) > MAX_CLOCK_SKEW.as_secs();
    (!is_skewed).then(|| Duration::from_secs(now.saturating_sub(issued)))
}

#[cfg(test)]
mod tests;
