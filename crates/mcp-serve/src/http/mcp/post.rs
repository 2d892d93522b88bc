//! One `POST /mcp`, top to bottom: admit, open the session, read the body, call the server, reply.
//! (The extractor has authenticated the request before.)

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;
use hyper::body::Body as _;
use mcp_core::era::{Era, Hints};
use mcp_core::error::{Credentials, Error};
use mcp_core::server::{Caller, FrameReply, IncomingFrame, Negotiated, Peer};
use mcp_core::trace::TraceFields;
use tokio_util::sync::CancellationToken;

use super::super::body;
use super::super::events::{
    FirstEvent, InFlightCall, MessageSender, ReplayPolicy, ServerMessage, request_digits,
};
use super::super::headers::{self, Accepts, SESSION};
use super::super::reply::{self, Refusal};
use super::super::request::HttpRequest;
use super::super::session::Session;
use super::{McpEndpoint, RequestPermit};

/// A request whose body was read.
pub(super) struct Received {
    session: Option<Session>,
    pub(super) message: Bytes,
    pub(super) permit: RequestPermit,
}

impl McpEndpoint {
    /// Answers a message, or a batch of them.
    pub(in crate::http) async fn post(&self, mut request: HttpRequest) -> Response {
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
        let session = self.session_of_post(request).await?;
        let expected = request.body().size_hint().upper().unwrap_or(u64::MAX);
        let mut memory = self.body_permit(expected).ok_or(Refusal::Busy)?;
        let message = body::read(request.body(), &self.limits).await?;
        memory.keep(message.len());
        // The body may have taken longer than its token was valid.
        if request.is_revoked() {
            return Err(Refusal::Error(Error::Unauthorized(Credentials::Invalid)));
        }
        // After the body: a slow body must not take the permit of another request.
        let permit = self.permit().ok_or(Refusal::Busy)?;
        Ok(Received {
            session,
            message,
            permit: RequestPermit {
                _request: permit,
                _body: memory,
            },
        })
    }

    /// Opens the session that the request names. The modern era has no sessions and ignores their ids.
    async fn session_of_post(&self, request: &HttpRequest) -> Result<Option<Session>, Refusal> {
        let id = headers::session_id(&request.headers);
        if id.is_none() || headers::era(&request.headers) == Era::Modern {
            return Ok(None);
        }
        let session = self.session(request).await;
        session.map(Some).ok_or(Error::SessionNotFound.into())
    }

    /// Calls the server. Replies with JSON if the answer comes first and the client accepts JSON; with a stream of events
    /// if the call sends messages before.
    async fn call(&self, mut request: HttpRequest, received: Received) -> Response {
        let accepts = Accepts::of(&request.headers);
        let is_subscription = headers::is_subscription(&request.headers);
        let (peer, messages) = accepts.events.then(MessageSender::new).unzip();
        let replay = received.session.as_ref().map(|session| {
            // Another process, which may be asked for the stream, reads the id of the request in those of the events.
            let is_shared = self.shared.is_some();
            ReplayPolicy {
                request: is_shared
                    .then(|| request_digits(&received.message))
                    .flatten(),
                ..session.replay_policy(self.limits.keep_alive_interval)
            }
        });
        let (mut call, _accepting) = self.start(&mut request, received, peer);
        let Some(mut messages) = messages else {
            return self.json(call.await, &request);
        };
        let may_wait = accepts.json || is_subscription;
        let (first, replay) = match FirstEvent::next(&mut call, &mut messages, may_wait).await {
            FirstEvent::Answer(answer) if accepts.json || answer.status != 200 => {
                return self.json(answer, &request);
            }
            FirstEvent::Answer(answer) => {
                let session = self.new_session(answer.negotiated, &request);
                let events = self.events(answer.into_line(), messages, call, &request);
                return with_session(reply::events(events), session);
            }
            FirstEvent::Message(message) if is_subscription => {
                return match self.stream_slot(&request) {
                    Ok(slot) => {
                        let first = message.into_event();
                        let events = self.events(first, messages, call, &request);
                        reply::idle_stream(events.in_slot(slot))
                    }
                    Err(refused) => *refused,
                };
            }
            FirstEvent::Message(message) => (Some(message), replay),
            FirstEvent::Nothing => (None, replay),
        };
        match replay.filter(|_| self.streams.make_room()) {
            Some(policy) => match self.streams.start(policy, first, messages, call) {
                Some(replay) => reply::events(replay.until(request.revocation())),
                None => reply::busy(),
            },
            None => {
                let first = first.and_then(ServerMessage::into_event);
                reply::events(self.events(first, messages, call, &request))
            }
        }
    }

    /// Starts a call. Returns also the permit of a subscription until it is accepted: its resources are checked before.
    /// Then it only waits, and the limit of streams applies.
    fn start(
        &self,
        request: &mut HttpRequest,
        received: Received,
        peer: Option<MessageSender>,
    ) -> (InFlightCall, Option<RequestPermit>) {
        let Received {
            session,
            message,
            permit,
        } = received;
        let client_gone = Arc::<CancellationToken>::default();
        // Before the modern era a client that disconnects does not cancel its call.
        let is_cancelled = headers::era(&request.headers) == Era::Modern;
        let caller = Caller::new(
            session.as_ref().map(|session| Arc::clone(session.id())),
            peer.map(|sender| Arc::new(sender) as Arc<dyn Peer>),
        );
        let caller = request
            .identified(caller)
            .with_cancellation(is_cancelled.then(|| Arc::clone(&client_gone)))
            .with_disconnect(Some(Arc::clone(&client_gone)));
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
        let answer = async move {
            let params = headers::params(&headers);
            let lists = ["tracestate", "baggage"].map(|name| headers::list(&headers, name));
            let [state, baggage] = lists.each_ref().map(Option::as_deref);
            let parent = headers.get("traceparent").map(headers::text);
            let hints = Hints {
                params: &params,
                trace: TraceFields {
                    parent,
                    state,
                    baggage,
                },
                has_headers: true,
                ..headers::hints(&headers)
            };
            let connection = session.as_ref();
            let connection = connection.map(|session| Arc::clone(&session.connection));
            let frame = IncomingFrame {
                frame: &message,
                hints,
                connection,
                caller,
            };
            let answer = server.handle(frame).await;
            drop(permit);
            answer
        };
        (InFlightCall::new(answer, Some(client_gone)), accepting)
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
