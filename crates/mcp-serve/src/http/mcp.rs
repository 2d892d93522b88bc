//! The path `/mcp`: `POST` calls the server, `GET` opens or resumes a stream of a session, `DELETE` ends
//! a session.

mod post;
mod sse;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{HeaderMap, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use hyper::body::Body;
use mcp_core::error::Error;
use mcp_core::server::{Caller, FrameReply, Principal, Server};
use mcp_core::sign::Signer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::events::{EventStream, InFlightCall, MessageSender, ResumableStreams};
use super::guard;
use super::headers::{Head, HeaderFacts, last_event_id, session_id};
use super::limits::Limits;
use super::reply::{self, Reply};
use super::session::{Session, Sessions};
use super::stream_slots::{Revocation, StreamSlot, StreamSlots};
use crate::oauth::ResourceServer;
use crate::tokens::Credential;
use post::Post;
use sse::SseSessions;

pub(super) struct McpEndpoint {
    server: Arc<Server>,
    sessions: Arc<Sessions>,
    streams: Arc<ResumableStreams>,
    slots: Arc<StreamSlots>,
    limits: Limits,
    /// Says to clients without a token where they get one.
    oauth: Option<Arc<ResourceServer>>,
    /// One permit for each request in flight.
    in_flight: Arc<Semaphore>,
    /// Set if `/sse` is served.
    sse: OnceLock<Arc<SseSessions>>,
}

/// An authenticated request.
pub(super) struct Authenticated {
    /// `None` where no token is required.
    pub(super) credential: Option<Arc<Credential>>,
    pub(super) address: IpAddr,
    pub(super) headers: HeaderFacts,
    /// The view that its path names.
    pub(super) view: Option<ViewOwner>,
}

/// A view, and the owner of the sessions of one client there.
pub(super) struct ViewOwner {
    pub(super) name: Arc<str>,
    owner: String,
}

impl ViewOwner {
    /// The view of this name, used by the owner of a token.
    pub(super) fn new(name: Arc<str>, principal: Option<&Principal>) -> Self {
        let principal = principal.map_or("", |principal| &principal.name);
        // No name has a line end.
        let owner = format!("{principal}\n{name}");
        Self { name, owner }
    }
}

impl Authenticated {
    /// The owner of its token; `None` where no token is required.
    pub(super) fn principal(&self) -> Option<&Arc<Principal>> {
        self.credential
            .as_ref()
            .map(|credential| &credential.principal)
    }

    /// The owner of its sessions: its principal, which is empty where no token is required, in its view.
    pub(super) fn owner(&self) -> &str {
        match &self.view {
            Some(view) => &view.owner,
            None => self.principal().map_or("", |principal| &principal.name),
        }
    }

    /// The name of its view.
    pub(super) fn view(&self) -> Option<&Arc<str>> {
        self.view.as_ref().map(|view| &view.name)
    }

    /// The name by which limits are counted: that of its principal if tokens are required, else its address.
    pub(super) fn share(&self) -> String {
        match self.principal() {
            Some(principal) => principal.name.to_string(),
            None => self.address.to_string(),
        }
    }

    /// Cancelled when its token is not valid any more; `None` where no token is required.
    fn revoked(&self) -> Option<CancellationToken> {
        let credential = self.credential.as_ref();
        credential.map(|credential| credential.revoked.clone())
    }

    /// Returns the revocation of its token, which ends its streams.
    pub(super) fn revocation(&self) -> Revocation {
        Revocation::new(self.revoked())
    }
}

impl McpEndpoint {
    pub(super) fn new(
        server: Arc<Server>,
        signer: Signer,
        limits: Limits,
        oauth: Option<Arc<ResourceServer>>,
    ) -> Self {
        Self {
            server,
            sessions: Arc::new(Sessions::new(signer)),
            streams: Arc::default(),
            slots: Arc::new(StreamSlots::new(limits.max_streams_per_client)),
            limits,
            oauth,
            in_flight: Arc::new(Semaphore::new(limits.max_in_flight)),
            sse: OnceLock::new(),
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes a slot for a stream of this client; `None` if it has none left.
    pub(super) fn stream_slot(&self, client: &Authenticated) -> Option<StreamSlot> {
        self.slots.acquire(client.share())
    }

    /// Takes a permit for a request in flight; `None` at the limit.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight).try_acquire_owned().ok()
    }

    /// Waits until the server closes.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let server = Arc::clone(&self.server);
        async move { server.closed().await }
    }

    /// The number of sessions in memory.
    pub(super) fn sessions(&self) -> usize {
        let sse = self.sse.get().map_or(0, |sessions| sessions.len());
        self.sessions.len() + sse
    }

    /// The number of open streams on which clients listen.
    pub(super) fn open_streams(&self) -> usize {
        self.slots.len()
    }

    /// The number of requests in flight.
    pub(super) fn calls_in_flight(&self) -> usize {
        self.limits
            .max_in_flight
            .saturating_sub(self.in_flight.available_permits())
    }

    pub(super) async fn post<B: Body<Data = Bytes> + Unpin>(
        &self,
        headers: HeaderMap,
        body: &mut B,
        client: Authenticated,
    ) -> Response<Reply> {
        Post::new(self, client, headers).answer(body).await
    }

    /// Resumes an interrupted stream, else opens the stream that reports changes to a session.
    pub(super) fn get(&self, headers: &HeaderMap, client: &Authenticated) -> Response<Reply> {
        let Some(session) = self.session(headers, client) else {
            return self.refuse(headers, &Error::SessionNotFound, None);
        };
        let replay = last_event_id(headers).and_then(|last| {
            self.streams
                .resume(session.id(), last, self.limits.keep_alive_interval)
        });
        if let Some(replay) = replay {
            return reply::resumable(replay.until(client.revocation()));
        }
        // First, so that the stream that this one replaces frees its slot.
        let Some(slot) = self.slots.acquire(client.share()) else {
            return reply::too_many_streams(self.limits.max_streams_per_client);
        };
        let (sender, messages) = MessageSender::new();
        let server = Arc::clone(&self.server);
        let caller = Caller::default()
            .with_principal(client.principal().cloned())
            .with_view(client.view().cloned());
        let replaced = session.connection.replace_stream();
        let client_gone = replaced.clone();
        let watch = async move {
            tokio::select! {
                () = server.watch(&session.connection, &caller, &sender) => {}
                () = replaced.cancelled() => {}
            }
            FrameReply::nothing()
        };
        let call = InFlightCall::new(watch, client_gone);
        let (keep_alive, revocation) = (self.limits.keep_alive_interval, client.revocation());
        let events = EventStream::new(None, messages, call, keep_alive, revocation);
        reply::idle_stream(events.in_slot(slot))
    }

    /// Ends a session.
    pub(super) fn delete(&self, headers: &HeaderMap, client: &Authenticated) -> Response<Reply> {
        let end = |id: &&str| self.sessions.end(id, client.owner(), client.share());
        let ended = session_id(headers).filter(end);
        let Some(id) = ended else {
            return self.refuse(headers, &Error::SessionNotFound, None);
        };
        self.streams.forget(id);
        self.server.forget(id);
        reply::empty(StatusCode::NO_CONTENT)
    }

    /// Returns the response to a request, of a view or of the server, that is refused by its headers.
    pub(super) fn refuse(
        &self,
        headers: &HeaderMap,
        error: &Error,
        view: Option<&str>,
    ) -> Response<Reply> {
        let head = Head::read(headers);
        let mut response = reply::refused(error, head.era(), self.server.profile());
        let has_token = head.authorization.and_then(guard::bearer).is_some();
        let oauth = self.oauth.as_ref();
        if let Some(challenge) = oauth.and_then(|oauth| oauth.challenge_in(error, has_token, view))
        {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    fn session(&self, headers: &HeaderMap, client: &Authenticated) -> Option<Session> {
        session_id(headers).and_then(|id| self.sessions.open(id, client.owner(), || client.share()))
    }
}
