//! The path `/mcp`: `POST` calls the server, `GET` opens or resumes a stream of a session, `DELETE` ends
//! a session.

mod authenticated;
mod post;
mod refusal;
mod sse;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{HeaderMap, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use hyper::body::Body;
use mcp_core::error::Error;
use mcp_core::server::{Caller, FrameReply, Server};
use mcp_core::sign::Signer;
use mcp_core::tool::ToolError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::events::{EventStream, InFlightCall, MessageSender, ResumableStreams, lost_request};
use super::headers::{Head, last_event_id, session_id};
use super::limits::Limits;
use super::reply::{self, Reply};
use super::session::{Session, Sessions};
use super::stream_slots::{StreamSlot, StreamSlots};
use crate::SharedSessions;
use crate::key::process_id;
use crate::oauth::ResourceServer;
pub(super) use authenticated::{Authenticated, ViewOwner};
use post::Post;
use sse::SseSessions;

/// The unit of the memory of bodies.
const KIB: usize = 1024;

/// Bytes of a body whose memory is not counted.
const SMALL_BODY: u64 = 64 * 1024;

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
    /// One permit for each KiB of large request bodies.
    body_memory: Arc<Semaphore>,
    /// Set if `/sse` is served.
    sse: OnceLock<Arc<SseSessions>>,
    /// Set if other processes may serve the same sessions.
    shared: OnceLock<Arc<dyn SharedSessions>>,
}

/// The room that a request takes until its end.
pub(super) struct RequestPermit {
    _request: OwnedSemaphorePermit,
    _body: BodyPermit,
}

/// Permits for the memory of a body; none if it is small.
pub(super) struct BodyPermit(Option<OwnedSemaphorePermit>);

impl BodyPermit {
    /// Gives back what a body of unknown length did not need.
    fn keep(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.0 {
            let surplus = permit.num_permits().saturating_sub(bytes.div_ceil(KIB));
            drop(permit.split(surplus));
        }
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
            body_memory: Arc::new(Semaphore::new(limits.max_body_memory / KIB)),
            sse: OnceLock::new(),
            shared: OnceLock::new(),
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

    /// Takes permits for the memory of a body of at most `bytes`; `None` at the limit.
    fn body_permit(&self, bytes: u64) -> Option<BodyPermit> {
        if bytes <= SMALL_BODY {
            return Some(BodyPermit(None));
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let kib = bytes.min(self.limits.max_body_bytes).div_ceil(KIB);
        let memory = Arc::clone(&self.body_memory);
        let permit = memory.try_acquire_many_owned(u32::try_from(kib).ok()?);
        permit.ok().map(|permit| BodyPermit(Some(permit)))
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
        let mut post = Post::new(self, client, headers);
        post.answer(body).await
    }

    /// Resumes an interrupted stream, else opens the stream that reports changes to a session.
    pub(super) async fn get(&self, headers: &HeaderMap, client: &Authenticated) -> Response<Reply> {
        let id = session_id(headers);
        let Some(session) = self.session(id, client).await else {
            return self.refuse(headers, &Error::SessionNotFound, None);
        };
        let last = last_event_id(headers);
        let lost = last.filter(|last| !is_of_this_process(last));
        if let Some(request) = lost.and_then(lost_request) {
            return self.lost(&request, client);
        }
        let replay = last.and_then(|last| {
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
        let call = InFlightCall::new(watch, Some(Arc::new(client_gone)));
        let (keep_alive, revocation) = (self.limits.keep_alive_interval, client.revocation());
        let events = EventStream::new(None, messages, call, keep_alive, revocation);
        reply::idle_stream(events.in_slot(slot))
    }

    /// Answers the client of a stream that another process had with the error of its request.
    fn lost(&self, request: &str, client: &Authenticated) -> Response<Reply> {
        let error = Error::ToolFailed(ToolError::unavailable(
            "Another server process has the answer of this call, or has ended. Check whether the call took effect, and \
             call again.",
        ));
        let answer = FrameReply::failed(request, client.headers.era, &error, self.server.profile());
        let (_, messages) = MessageSender::new();
        let call = InFlightCall::new(std::future::ready(answer), None);
        let (keep_alive, revocation) = (self.limits.keep_alive_interval, client.revocation());
        reply::events(EventStream::new(
            None, messages, call, keep_alive, revocation,
        ))
    }

    /// Ends a session.
    pub(super) async fn delete(
        &self,
        headers: &HeaderMap,
        client: &Authenticated,
    ) -> Response<Reply> {
        let id = session_id(headers);
        let session = self.session(id, client).await;
        let handle = session.map(|session| session.handle());
        let end = |id: &&str| self.sessions.end(id, client.owner(), client.share());
        let ended = id.filter(end);
        let (Some(id), Some(handle)) = (ended, handle) else {
            return self.refuse(headers, &Error::SessionNotFound, None);
        };
        self.streams.forget(id);
        self.server.forget(id);
        if let Some(shared) = self.shared.get() {
            shared.end(handle).await;
        }
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
        let oauth = self.oauth.as_ref();
        if let Some(challenge) = oauth.and_then(|oauth| oauth.challenge_in(error, view)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// Opens the session with this id, unless it has ended here or at another process.
    async fn session(&self, id: Option<&str>, client: &Authenticated) -> Option<Session> {
        let id = id?;
        let session = self.sessions.open(id, client.owner(), || client.share())?;
        let Some(shared) = self.shared.get() else {
            return Some(session);
        };
        let handle = session.handle();
        if session.is_claimed(|| shared.claim(handle)).await && !shared.has_ended(handle) {
            return Some(session);
        }
        self.sessions.end(id, client.owner(), client.share());
        self.streams.forget(id);
        self.server.forget(id);
        None
    }

    /// Shares its sessions with other processes from now on. A second call has no effect.
    pub(in crate::http) fn share_sessions(&self, shared: Arc<dyn SharedSessions>) {
        let _ = self.shared.set(shared);
    }
}

/// Returns true if this process has made the event with this id.
fn is_of_this_process(event: &str) -> bool {
    event.starts_with(&format!("{:08x}", process_id()))
}
