//! The path `/mcp`: `POST` calls the server, `GET` opens or resumes a stream of a session, `DELETE` ends
//! a session.

mod post;
mod sse;

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use mcp_core::error::Error;
use mcp_core::server::{Caller, FrameReply, Server};
use mcp_core::sign::Signer;
use mcp_core::tool::ToolError;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::events::{
    EventStream, InFlightCall, MessageSender, ResumableStreams, ServerMessage, lost_request,
};
use super::headers::{era, last_event_id, session_id};
use super::limits::Limits;
use super::reply::{self, Refusal};
use super::request::HttpRequest;
use super::session::{Session, Sessions};
use super::stream_slots::{StreamSlot, StreamSlots};
use crate::SharedSessions;
use crate::key::process_id;
use crate::oauth::ResourceServer;
use sse::SseSessions;

/// The unit of the memory of bodies.
const KIB: usize = 1024;

/// Bytes of a body whose memory is not counted.
const SMALL_BODY: u64 = 64 * 1024;

pub(super) struct McpEndpoint {
    server: Arc<Server>,
    sessions: Sessions,
    streams: Arc<ResumableStreams>,
    slots: Arc<StreamSlots>,
    limits: Limits,
    /// Says to clients without a token where they get one.
    oauth: Option<Arc<ResourceServer>>,
    /// One permit for each request in flight.
    in_flight: Arc<Semaphore>,
    /// One permit for each KiB of large request bodies.
    body_memory: Arc<Semaphore>,
    /// The sessions of `/sse`, which may not be served.
    sse: Arc<SseSessions>,
    /// Set if other processes may serve the same sessions.
    shared: Option<Arc<dyn SharedSessions>>,
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
        shared: Option<Arc<dyn SharedSessions>>,
    ) -> Self {
        Self {
            server,
            sessions: Sessions::new(signer),
            streams: Arc::default(),
            slots: Arc::new(StreamSlots::new(limits.max_streams_per_client)),
            limits,
            oauth,
            in_flight: Arc::new(Semaphore::new(limits.max_in_flight)),
            body_memory: Arc::new(Semaphore::new(limits.max_body_memory / KIB)),
            sse: Arc::default(),
            shared,
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes a slot for a stream of the client of a request.
    ///
    /// # Errors
    /// The response to a client that has none left.
    pub(super) fn stream_slot(&self, request: &HttpRequest) -> Result<StreamSlot, Box<Response>> {
        let slot = self.slots.acquire(request.share());
        slot.ok_or_else(|| Box::new(reply::too_many_streams(self.limits.max_streams_per_client)))
    }

    /// Returns a stream of the client of a request, which ends with its connection.
    pub(super) fn events(
        &self,
        first: Option<Vec<u8>>,
        messages: Receiver<ServerMessage>,
        call: InFlightCall,
        request: &HttpRequest,
    ) -> EventStream {
        let (keep_alive, revocation) = (self.limits.keep_alive_interval, request.revocation());
        EventStream::new(first, messages, call, keep_alive, revocation)
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
        self.sessions.len() + self.sse.len()
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

    /// Resumes an interrupted stream, else opens the stream that reports changes to a session.
    pub(super) async fn get(&self, request: &HttpRequest) -> Response {
        let Some(session) = self.session(request).await else {
            return self.refuse(request, None, Error::SessionNotFound.into());
        };
        let last = last_event_id(&request.headers);
        let lost = last.filter(|last| !is_of_this_process(last));
        if let Some(id) = lost.and_then(lost_request) {
            return self.lost(&id, request);
        }
        let replay = last.and_then(|last| {
            self.streams
                .resume(session.id(), last, self.limits.keep_alive_interval)
        });
        if let Some(replay) = replay {
            return reply::events(replay.until(request.revocation()));
        }
        // First, so that the stream that this one replaces frees its slot.
        let slot = match self.stream_slot(request) {
            Ok(slot) => slot,
            Err(refused) => return *refused,
        };
        let (sender, messages) = MessageSender::new();
        let server = Arc::clone(&self.server);
        let caller = request.identified(Caller::default());
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
        reply::idle_stream(self.events(None, messages, call, request).in_slot(slot))
    }

    /// Answers the client of a stream that another process had with the error of its request.
    fn lost(&self, id: &str, request: &HttpRequest) -> Response {
        let error = Error::ToolFailed(ToolError::unavailable(
            "Another server process has the answer of this call, or has ended. Check whether the call took effect, and \
             call again.",
        ));
        let answer = FrameReply::failed(id, era(&request.headers), &error, self.server.profile());
        let (_, messages) = MessageSender::new();
        let call = InFlightCall::new(std::future::ready(answer), None);
        reply::events(self.events(None, messages, call, request))
    }

    /// Ends a session.
    pub(super) async fn delete(&self, request: &HttpRequest) -> Response {
        let id = session_id(&request.headers);
        let session = self.session(request).await;
        let handle = session.map(|session| session.handle());
        let ended = id.filter(|id| self.sessions.end(id, &request.owner(), request.share()));
        let (Some(id), Some(handle)) = (ended, handle) else {
            return self.refuse(request, None, Error::SessionNotFound.into());
        };
        self.streams.forget(id);
        self.server.forget(id);
        if let Some(shared) = &self.shared {
            shared.end(handle).await;
        }
        reply::empty(StatusCode::NO_CONTENT)
    }

    /// Returns the response to a request, of a view or of the server, that is refused.
    pub(super) fn refuse(
        &self,
        request: &HttpRequest,
        view: Option<&str>,
        refusal: Refusal,
    ) -> Response {
        let (error, is_foreign) = match refusal {
            Refusal::Busy => return reply::busy(),
            Refusal::Unsupported(advice) => return reply::unsupported(advice),
            Refusal::Body(status, reason) => return reply::because(reason, reply::empty(status)),
            Refusal::Host(error) => {
                let is_foreign = matches!(error, Error::Forbidden(_));
                (error, is_foreign)
            }
            Refusal::Error(error) => (error, false),
        };
        tracing::debug!(kind = error.kind(), "refused");
        let mut response = reply::refused(&error, era(&request.headers), self.server.profile());
        let oauth = self.oauth.as_ref();
        if let Some(challenge) = oauth.and_then(|oauth| oauth.challenge_in(&error, view)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        match is_foreign {
            true => reply::because(reply::FOREIGN_HOST, response),
            false => response,
        }
    }

    /// Refuses a message whose body was not read to its end.
    fn refuse_unread(&self, request: HttpRequest, refusal: Refusal) -> Response {
        let response = self.refuse(&request, request.view.as_deref(), refusal);
        request.unread(response)
    }

    /// Opens the session that a request names, unless it has ended here or at another process.
    async fn session(&self, request: &HttpRequest) -> Option<Session> {
        let id = session_id(&request.headers)?;
        let owner = request.owner();
        let session = self.sessions.open(id, &owner, || request.share())?;
        let Some(shared) = &self.shared else {
            return Some(session);
        };
        let handle = session.handle();
        if session.is_claimed(|| shared.claim(handle)).await && !shared.has_ended(handle) {
            return Some(session);
        }
        self.sessions.end(id, &owner, request.share());
        self.streams.forget(id);
        self.server.forget(id);
        None
    }
}

/// Returns true if this process has made the event with this id.
fn is_of_this_process(event: &str) -> bool {
    event.starts_with(&format!("{:08x}", process_id()))
}
