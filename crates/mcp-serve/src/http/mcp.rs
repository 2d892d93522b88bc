//! The path `/mcp`: `POST` calls the server, `GET` opens or resumes a stream of a session, `DELETE` ends
//! a session.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use http::StatusCode;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::body::Body as _;
use mcp_core::era::Era;
use mcp_core::error::{Credentials, Error};
use mcp_core::server::{Caller, FrameReply, IncomingFrame, Negotiated, Peer};
use mcp_core::tool::ToolError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use crate::http::app::App;
use crate::http::events::{
    InFlightCall, MessageSender, Output, kept_alive, lost_request, request_digits,
};
use crate::http::headers::{Accepts, SESSION, era, last_event_id, session_id};
use crate::http::limits::StreamSlot;
use crate::http::reply::Refusal;
use crate::http::request::{HttpRequest, read_body};
use crate::http::session::Session;
use crate::http::{headers, reply};
use crate::key::process_id;

/// The unit of the memory of bodies.
pub(super) const KIB: usize = 1024;

/// Bytes of a body whose memory is not counted.
const SMALL_BODY: u64 = 64 * 1024;

/// The room that a request takes until its end: a permit for itself, and those for the memory of its body.
pub(super) type RequestPermit = [OwnedSemaphorePermit; 2];

impl App {
    /// Takes a slot for a stream of the client of a request.
    ///
    /// # Errors
    /// The response to a client that has none left.
    pub(super) fn stream_slot(&self, request: &HttpRequest) -> Result<StreamSlot, Box<Response>> {
        let most = self.limits.max_streams_per_client;
        let slot = self.slots.acquire(request.limit_key(), most);
        slot.ok_or_else(|| Box::new(reply::too_many_streams(most)))
    }

    /// Returns a stream of the client of a request, which ends with its token.
    pub(super) fn stream(
        &self,
        events: impl Stream<Item = Bytes> + Send + 'static,
        request: &HttpRequest,
    ) -> Response {
        let events = kept_alive(events, self.limits.keep_alive_interval);
        reply::events(events.take_until(Box::pin(request.revoked())))
    }

    /// Returns a stream on which a client only listens, and with which its connection ends.
    pub(super) fn idle_stream(
        &self,
        events: impl Stream<Item = Bytes> + Send + 'static,
        request: &HttpRequest,
        slot: StreamSlot,
    ) -> Response {
        let events = events.inspect(move |_| _ = &slot);
        let mut response = self.stream(events, request);
        reply::end_connection(&mut response);
        response
    }

    /// Takes a permit for a request in flight; `None` at the limit.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight).try_acquire_owned().ok()
    }

    /// Takes permits for the memory of a body of at most `bytes`, none for a small one; `None` at the limit.
    fn body_permit(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        let kib = match bytes <= SMALL_BODY {
            true => 0,
            false => most.min(self.limits.max_body_bytes).div_ceil(KIB),
        };
        let memory = Arc::clone(&self.body_memory);
        memory.try_acquire_many_owned(u32::try_from(kib).ok()?).ok()
    }

    /// Resumes an interrupted stream, else opens the stream that reports changes to a session.
    pub(super) async fn get(&self, request: &HttpRequest) -> Response {
        let Some(session) = self.session(request).await else {
            return self.refuse(request, None, Error::SessionNotFound.into());
        };
        let last = last_event_id(&request.headers);
        let own = format!("{:08x}", process_id());
        let lost = last.filter(|last| !last.starts_with(&own));
        if let Some(id) = lost.and_then(lost_request) {
            return self.lost(&id, request);
        }
        let replay = last.and_then(|last| self.streams.resume(session.id(), last));
        if let Some(replay) = replay {
            return self.stream(replay, request);
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
        let call = InFlightCall::new(watch, Some(messages), Some(Arc::new(client_gone)));
        self.idle_stream(call.into_events(None), request, slot)
    }

    /// Answers the client of a stream that another process had with the error of its request.
    fn lost(&self, id: &str, request: &HttpRequest) -> Response {
        let error = Error::ToolFailed(ToolError::unavailable(
            "Another server process has the answer of this call, or has ended. Check whether the call took effect, and \
             call again.",
        ));
        let answer =
            FrameReply::failed(id, era(&request.headers), &error, self.server.error_codes());
        let call = InFlightCall::new(std::future::ready(answer), None, None);
        self.stream(call.into_events(None), request)
    }

    /// Ends a session.
    pub(super) async fn delete(&self, request: &HttpRequest) -> Response {
        let id = session_id(&request.headers);
        let session = self.session(request).await;
        let handle = session.map(|session| session.handle());
        let ended = id.filter(|id| {
            self.sessions
                .end(id, &request.owner(), &request.limit_key())
        });
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
            Refusal::Other(status, reason) => return reply::failure(status, reason),
            Refusal::Host(error) => {
                let is_foreign = matches!(error, Error::Forbidden(_));
                (error, is_foreign)
            }
            Refusal::Error(error) => (error, false),
        };
        tracing::debug!(kind = error.kind(), "refused");
        let mut response = reply::refused(&error, era(&request.headers), self.server.error_codes());
        let oauth = self.guard.oauth();
        if let Some(challenge) = oauth.and_then(|oauth| oauth.challenge_in(&error, view)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        match is_foreign {
            true => reply::because(reply::FOREIGN_HOST, response),
            false => response,
        }
    }

    /// Refuses a request whose body was not read to its end.
    pub(super) fn refuse_unread(&self, request: HttpRequest, refusal: Refusal) -> Response {
        let response = self.refuse(&request, request.view.as_deref(), refusal);
        request.unread(response)
    }

    /// Opens the session that a request names, unless it has ended here or at another process.
    async fn session(&self, request: &HttpRequest) -> Option<Arc<Session>> {
        let id = session_id(&request.headers)?;
        let owner = request.owner();
        let session = self.sessions.open(id, &owner, || request.limit_key())?;
        let Some(shared) = &self.shared else {
            return Some(session);
        };
        let handle = session.handle();
        if session.is_claimed(|| shared.claim(handle)).await && !shared.has_ended(handle) {
            return Some(session);
        }
        self.sessions.end(id, &owner, &request.limit_key());
        self.streams.forget(id);
        self.server.forget(id);
        None
    }
}

/// A request whose body was read.
pub(super) struct Received {
    session: Option<Arc<Session>>,
    pub(super) message: Bytes,
    pub(super) permit: RequestPermit,
}

impl App {
    /// Answers a message, or a batch of them.
    pub(super) async fn post(&self, mut request: HttpRequest) -> Response {
        match self.receive(&mut request).await {
            Ok(received) => self.call(request, received).await,
            Err(refusal) => self.refuse_unread(request, refusal),
        }
    }

    /// Receives a request. Cheap checks come first: it is refused before its body is read.
    pub(super) async fn receive(&self, request: &mut HttpRequest) -> Result<Received, Refusal> {
        if self.in_flight.available_permits() == 0 {
            return Err(Refusal::Busy);
        }
        if !headers::is_json(&request.headers) {
            return Err(Refusal::Unsupported(
                "send the message as Content-Type: application/json",
            ));
        }
        if !headers::is_unencoded(&request.headers) {
            return Err(Refusal::Unsupported(
                "send the message without Content-Encoding",
            ));
        }
        // The modern era has no sessions and ignores their ids.
        let session = match session_id(&request.headers) {
            Some(_) if era(&request.headers) != Era::Modern => {
                let session = self.session(request).await;
                Some(session.ok_or(Error::SessionNotFound)?)
            }
            _ => None,
        };
        let expected = request.body().size_hint().upper().unwrap_or(u64::MAX);
        let mut memory = self.body_permit(expected).ok_or(Refusal::Busy)?;
        let message = read_body(request.body(), &self.limits).await?;
        // A body of unknown length did not need all.
        let surplus = memory
            .num_permits()
            .saturating_sub(message.len().div_ceil(KIB));
        drop(memory.split(surplus));
        // The body may have taken longer than its token was valid.
        let credential = request.credential.as_ref();
        if credential.is_some_and(|credential| credential.revoked.is_cancelled()) {
            return Err(Refusal::Error(Error::Unauthorized(Credentials::Invalid)));
        }
        // After the body: a slow body must not take the permit of another request.
        let permit = self.permit().ok_or(Refusal::Busy)?;
        Ok(Received {
            session,
            message,
            permit: [permit, memory],
        })
    }

    /// Calls the server. Replies with JSON if the answer comes first and the client accepts JSON; with a stream of events
    /// if the call sends messages before.
    async fn call(&self, mut request: HttpRequest, received: Received) -> Response {
        let accepts = Accepts::of(&request.headers);
        let is_subscription = headers::is_subscription(&request.headers);
        let (peer, messages) = accepts.events.then(MessageSender::new).unzip();
        let replay = received.session.as_ref().map(|session| {
            // Another process, which may be asked for the stream, reads the id of the request in those of the events.
            let shared = self.shared.as_ref();
            session.replay_policy(shared.and_then(|_| request_digits(&received.message)))
        });
        let (mut call, _accepting) = self.start(&mut request, received, peer.zip(messages));
        if !accepts.events {
            return self.json(call.answer().await, &request);
        }
        // A client that accepts only events gets its stream at once.
        let first = match accepts.json || is_subscription {
            true => call.next().await,
            false => call.next().now_or_never().flatten(),
        };
        let first = match first {
            Some(Output::Reply(answer)) if accepts.json || answer.status != 200 => {
                return self.json(answer, &request);
            }
            Some(Output::Reply(mut answer)) => {
                let session = self.new_session(answer.negotiated.take(), &request);
                let events = call.into_events(Some(Output::Reply(answer)));
                return with_session(self.stream(events, &request), session);
            }
            first if is_subscription => {
                return match self.stream_slot(&request) {
                    Ok(slot) => self.idle_stream(call.into_events(first), &request, slot),
                    Err(refused) => *refused,
                };
            }
            first => first,
        };
        match replay.filter(|_| self.streams.make_room()) {
            Some(policy) => match self.streams.start(policy, first, call) {
                Some(replay) => self.stream(replay, &request),
                None => reply::busy(),
            },
            None => self.stream(call.into_events(first), &request),
        }
    }

    /// Starts a call. Returns also the permit of a subscription until it is accepted: its resources are checked before.
    /// Then it only waits, and the limit of streams applies.
    fn start(
        &self,
        request: &mut HttpRequest,
        received: Received,
        peer: Option<(MessageSender, Receiver<Output>)>,
    ) -> (InFlightCall, Option<RequestPermit>) {
        let Received {
            session,
            message,
            permit,
        } = received;
        let client_gone = Arc::<CancellationToken>::default();
        let (sender, messages) = peer.unzip();
        // Before the modern era a client that disconnects does not cancel its call.
        let is_cancelled = headers::era(&request.headers) == Era::Modern;
        let caller = Caller::new(
            session.as_ref().map(|session| Arc::clone(session.id())),
            sender.map(|sender| Arc::new(sender) as Arc<dyn Peer>),
        );
        let mut caller = Caller {
            cancelled: is_cancelled.then(|| Arc::clone(&client_gone)),
            disconnected: Some(Arc::clone(&client_gone)),
            ..request.identified(caller)
        };
        let is_subscription = headers::is_subscription(&request.headers);
        let (permit, accepting) = match is_subscription {
            true => (None, Some(permit)),
            false => (Some(permit), None),
        };
        let server = Arc::clone(&self.server);
        let headers = std::mem::take(&mut request.headers);
        // Else a stream that lasts would keep the read buffer of hyper, of which they are parts: 8 KiB.
        let (headers, message) = match is_subscription {
            true => (headers::copied(&headers), Bytes::copy_from_slice(&message)),
            false => (headers, message),
        };
        let headers = Arc::new(headers);
        caller.headers = server.relays().then(|| Arc::clone(&headers));
        let answer = async move {
            let connection = session.as_ref();
            let connection = connection.map(|session| Arc::clone(&session.connection));
            let frame = IncomingFrame {
                frame: &message,
                headers: Some(&headers),
                is_old_transport: false,
                connection,
                caller,
            };
            let answer = server.handle(frame).await;
            drop(permit);
            answer
        };
        let call = InFlightCall::new(answer, messages, Some(client_gone));
        (call, accepting)
    }

    fn json(&self, answer: FrameReply, request: &HttpRequest) -> Response {
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        let response = match answer.body {
            Some(body) => reply::json(status, body),
            None => reply::empty(status),
        };
        with_session(response, self.new_session(answer.negotiated, request))
    }

    /// Returns the id of the session that an `initialize` request has negotiated.
    fn new_session(
        &self,
        negotiated: Option<Negotiated>,
        request: &HttpRequest,
    ) -> Option<HeaderValue> {
        let id = self.sessions.create_id(negotiated?, &request.owner())?;
        HeaderValue::try_from(id).ok()
    }
}

/// The response with the id of a new session, if there is one.
fn with_session(mut response: Response, session: Option<HeaderValue>) -> Response {
    if let Some(id) = session {
        response.headers_mut().insert(SESSION, id);
    }
    response
}
