//! Hops: requests that one replica forwards to another, once. See [`crate::ReplicaSet`].
//!
//! A hop is the request of the client without its credentials, and with a signed header in their place ([`ticket`]).
//! The other replica believes it who the client is, looks its token up in its own tables, and does not forward it again.

mod nonces;
mod refusal;
mod span;
mod ticket;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{CONNECTION, DATE, EXPECT, HeaderMap, HeaderName, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as SendError};
use hyper_util::rt::TokioExecutor;
use mcp_core::server::{Forwarding, Place, ReplicaId, Replicas};
use mcp_core::sign::Signer;
use parking_lot::Mutex;

use self::nonces::UsedNonces;
pub(in crate::http) use self::refusal::HopRefusal;
use self::ticket::Receiver;
pub(in crate::http) use self::ticket::{HopTicket, TicketClient};
use super::super::headers::is_forwarded;
use super::super::hop_body::HopBody;
use super::super::reply::{self, Reply};
use super::authenticated::Authenticated;
use crate::ReplicaSet;
use crate::key::{process_id, random};

/// The header with the ticket.
pub(in crate::http) const HOP: HeaderName = HeaderName::from_static("mcp-hop");
/// Timeout for a connection to another replica.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for a message to another replica whose response is not waited for any longer.
const TELL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which a connection without requests is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

type HopClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends and accepts hops.
pub(in crate::http) struct Hops {
    replicas: Arc<dyn ReplicaSet>,
    signer: Signer,
    used: Mutex<UsedNonces>,
    /// Made for the first hop.
    client: Mutex<Option<HopClient>>,
}

/// A request of a client that can be forwarded.
pub(in crate::http) struct HopRequest<'a> {
    pub(in crate::http) method: Method,
    pub(in crate::http) headers: Cow<'a, HeaderMap>,
    pub(in crate::http) body: Bytes,
    pub(in crate::http) client: &'a Authenticated,
}

/// The replica could not be reached, or has ended before it answered.
pub(in crate::http) struct Unreachable;

/// The outcome of sending a request to another replica.
enum Attempt {
    Answered(Response<Incoming>),
    /// Nothing listens at its address, or that is not known.
    NoConnection,
    /// Its connection broke before the head of the response, twice.
    Broken,
}

impl Hops {
    pub(in crate::http) fn new(replicas: Arc<dyn ReplicaSet>, signer: Signer) -> Self {
        Self {
            replicas,
            signer,
            used: Mutex::default(),
            client: Mutex::default(),
        }
    }

    pub(in crate::http) fn replicas(&self) -> &dyn ReplicaSet {
        &*self.replicas
    }

    pub(in crate::http) fn shared_replicas(&self) -> Arc<dyn ReplicaSet> {
        Arc::clone(&self.replicas)
    }

    /// Signs tickets.
    pub(in crate::http) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Forwarding of one frame that arrived at `arrived`.
    pub(in crate::http) fn forwarding(&self, arrived: Instant) -> Forwarding {
        let replicas = Arc::clone(&self.replicas);
        Forwarding::new(Arc::new(ReplicasAt { replicas, arrived }))
    }

    /// Reads the table of replicas again if `place` is not known; `None` if it cannot be read.
    pub(in crate::http) async fn locate(
        &self,
        arrived: Instant,
        place: impl Fn() -> Place,
    ) -> Option<Place> {
        let Place::Unknown(_) = place() else {
            return Some(place());
        };
        if !self.replicas.refresh(arrived).await {
            return None;
        }
        match place() {
            Place::Unknown(_) => None,
            place => Some(place),
        }
    }

    /// Sends a request to another replica, and returns its response.
    pub(in crate::http) async fn send(
        &self,
        to: ReplicaId,
        request: &HopRequest<'_>,
    ) -> Result<Response<Reply>, Unreachable> {
        let gone = self.replicas.gone(to);
        let attempt = tokio::select! {
            attempt = self.try_twice(to, request) => attempt,
            () = gone => Attempt::NoConnection,
        };
        let response = match attempt {
            Attempt::Answered(response) => response,
            Attempt::NoConnection => {
                self.replicas.suspect(to);
                return Err(Unreachable);
            }
            // It is alive, so that no other may answer.
            Attempt::Broken => return Ok(reply::replica_failed()),
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            let refusal = HopRefusal::read(response.headers());
            let why = HopRefusal::explanation(refusal);
            tracing::warn!(replica = %to, why, "a replica refused a forwarded request");
            return Ok(match refusal {
                Some(HopRefusal::Token) => reply::replica_refused_token(),
                _ => reply::replica_failed(),
            });
        }
        let (mut head, body) = response.into_parts();
        for name in [CONNECTION, TRANSFER_ENCODING, DATE] {
            head.headers.remove(name);
        }
        let body = HopBody::new(body, self.replicas.gone(to), request.client.revocation());
        Ok(Response::from_parts(head, Reply::Forwarded(Box::new(body))))
    }

    /// Sends a message to another replica, and waits until it has arrived, but not for long.
    pub(in crate::http) async fn tell(&self, to: ReplicaId, request: &HopRequest<'_>) {
        let sending = tokio::time::timeout(TELL_TIMEOUT, self.send(to, request));
        if !matches!(sending.await, Ok(Ok(_))) {
            tracing::debug!(replica = %to, "a message to another replica was not delivered");
        }
    }

    /// Sends a message to all other replicas.
    pub(in crate::http) async fn tell_all(&self, request: &HopRequest<'_>) {
        let others = self.replicas.others();
        join_all(others.into_iter().map(|to| self.tell(to, request))).await;
    }

    /// Returns the ticket of a hop. Leaves only those headers that it covers.
    ///
    /// # Errors
    /// No replica has sent it, or not for this request, this replica and this time.
    pub(in crate::http) fn accept(&self, head: &mut Parts) -> Result<HopTicket, HopRefusal> {
        let mut sealed = head.headers.get_all(HOP).iter();
        let ticket = match (sealed.next(), sealed.next()) {
            (Some(sealed), None) => HopTicket::open(&self.signer, sealed.as_bytes())?,
            _ => return Err(HopRefusal::Signature),
        };
        let now = self.replicas.time().ok_or(HopRefusal::Time)?;
        ticket.check(&Receiver {
            replica: process_id(),
            now,
            method: head.method.as_str(),
            target: head
                .uri
                .path_and_query()
                .map_or("", |target| target.as_str()),
            headers: &head.headers,
        })?;
        let (time, nonce) = ticket.nonce();
        if !self.used.lock().insert(time, nonce, now) {
            return Err(HopRefusal::Used);
        }
        head.headers = covered(&head.headers);
        Ok(ticket)
    }

    /// Sends a request; once more if its connection broke, which may have been closed as idle. What a client refers to
    /// by a handle has the same effect twice as once.
    async fn try_twice(&self, to: ReplicaId, request: &HopRequest<'_>) -> Attempt {
        for _ in 0..2 {
            match self.response(to, request).await {
                Some(Ok(response)) => return Attempt::Answered(response),
                Some(Err(error)) => {
                    tracing::info!(replica = %to, %error, "a request to a replica failed");
                    if error.is_connect() {
                        return Attempt::NoConnection;
                    }
                }
                None => return Attempt::NoConnection,
            }
        }
        Attempt::Broken
    }

    /// Returns the response of another replica; `None` if its address is not known.
    async fn response(
        &self,
        to: ReplicaId,
        request: &HopRequest<'_>,
    ) -> Option<Result<Response<Incoming>, SendError>> {
        let address = self.replicas.address(to)?;
        let client = self.client()?;
        let path = request.client.path();
        // The table was read, since it has the address.
        let time = self.replicas.time()?;
        let nonce = u64::try_from(random()? >> 64).unwrap_or_default();
        let ticket = HopTicket::new((to, time, nonce), request, &path, &self.signer);
        let Some(ticket) = ticket.seal(&self.signer) else {
            tracing::warn!("the token of a client has too many claims for a forwarded request");
            return None;
        };
        let mut forwarded = Request::builder()
            .method(&request.method)
            .uri(format!("{address}{path}"))
            .header(HOP, ticket)
            .body(Full::new(request.body.clone()))
            .ok()?;
        let headers = request.headers.iter();
        for (name, value) in headers.filter(|(name, _)| is_forwarded(name)) {
            forwarded.headers_mut().append(name, value.clone());
        }
        Some(client.request(forwarded).await)
    }

    fn client(&self) -> Option<HopClient> {
        let mut client = self.client.lock();
        if client.is_none() {
            *client = new_client();
        }
        client.clone()
    }
}

/// The replicas, for a request that arrived at a time.
struct ReplicasAt {
    replicas: Arc<dyn ReplicaSet>,
    arrived: Instant,
}

impl Replicas for ReplicasAt {
    fn place(&self, id: ReplicaId) -> Place {
        self.replicas.place(id, self.arrived)
    }

    fn task_place(&self, id: &str) -> Option<Place> {
        self.replicas.task_place(id, self.arrived)
    }

    fn home(&self, session: u128) -> Place {
        self.replicas.home(session, self.arrived)
    }
}

/// The headers of a hop that are read: those that its ticket covers, and those of its body's end.
fn covered(headers: &HeaderMap) -> HeaderMap {
    let is_read =
        |name: &HeaderName| is_forwarded(name) || *name == EXPECT || *name == TRANSFER_ENCODING;
    let read = headers.iter().filter(|(name, _)| is_read(name));
    let mut covered = HeaderMap::new();
    for (name, value) in read {
        covered.append(name, value.clone());
    }
    covered
}

fn new_client() -> Option<HopClient> {
    let tls = mcp_client::tls::client_config();
    let tls = tls.inspect_err(|error| tracing::error!(%error, "no TLS towards other replicas"));
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_nodelay(true);
    connector.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls.ok()?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_idle_timeout(IDLE_TIMEOUT);
    builder.pool_timer(hyper_util::rt::TokioTimer::new());
    Some(builder.build(connector))
}
