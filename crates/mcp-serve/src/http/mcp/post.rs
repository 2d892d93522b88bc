//! One `POST /mcp`, top to bottom: admit, open the session, read the body, call the server, reply.
//! (`router` has authenticated the request before.)

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Body;
use mcp_core::era::{Era, Hints};
use mcp_core::server::{Caller, FrameReply, IncomingFrame, Negotiated, Peer};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::super::body;
use super::super::events::{
    EventStream, FirstEvent, InFlightCall, MessageSender, ReplayPolicy, ServerMessage,
    request_digits,
};
use super::super::headers::{Accepts, HeaderFacts, params};
use super::super::reply::{self, Reply};
use super::super::session::Session;
use super::refusal::Refusal;
use super::{Authenticated, McpEndpoint, RequestPermit};

/// A request whose head was read.
pub(super) struct Post<'a> {
    endpoint: &'a McpEndpoint,
    client: Authenticated,
    headers: HeaderMap,
}

/// A call that has started and is not answered yet.
struct PendingReply<'a> {
    endpoint: &'a McpEndpoint,
    client: &'a Authenticated,
    /// The headers of the request, whose memory those of the response take.
    headers: &'a mut HeaderMap,
    accepts: Accepts,
    /// The message, if another process may be asked for its stream.
    message: Option<Bytes>,
    /// Set if the stream of this call can be resumed.
    replay: Option<ReplayPolicy>,
    /// True if the client only listens from now on (2026-07-28, "subscriptions/listen").
    is_subscription: bool,
    /// The permit of a subscription until it is accepted: its resources are checked before. Then it only
    /// waits, and the limit of streams applies.
    _accepting: Option<RequestPermit>,
    call: InFlightCall,
}

impl<'a> Post<'a> {
    pub(super) fn new(
        endpoint: &'a McpEndpoint,
        client: Authenticated,
        headers: HeaderMap,
    ) -> Self {
        Self {
            endpoint,
            client,
            headers,
        }
    }

    pub(super) async fn answer<B>(&mut self, body: &mut B) -> Response<Reply>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (session, message, permit) = match self.receive(body).await {
            Ok(received) => received,
            Err(refusal) => {
                let response = self
                    .endpoint
                    .refuse_post(&self.headers, &self.client, refusal);
                return reply::before_body(response, &self.headers, body);
            }
        };
        let (reply, messages) = self.call(session, message, permit);
        reply.send(messages).await
    }

    /// Accepts the message and passes it to `start`, which answers it elsewhere.
    pub(super) async fn accept<B>(
        self,
        body: &mut B,
        start: impl FnOnce(Bytes, RequestPermit),
    ) -> Response<Reply>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        match self.receive(body).await {
            Ok((_, message, permit)) => {
                start(message, permit);
                reply::empty(StatusCode::ACCEPTED)
            }
            Err(refusal) => {
                let response = self
                    .endpoint
                    .refuse_post(&self.headers, &self.client, refusal);
                reply::before_body(response, &self.headers, body)
            }
        }
    }

    /// Receives the request. Cheap checks come first: a request is refused before its body is read.
    async fn receive<B: Body<Data = Bytes> + Unpin>(
        &self,
        body: &mut B,
    ) -> Result<(Option<Session>, Bytes, RequestPermit), Refusal> {
        self.admit()?;
        let session = self.session().await?;
        let expected = body.size_hint();
        let expected = expected.upper().unwrap_or(u64::MAX);
        let memory = self.endpoint.body_permit(expected);
        let mut memory = memory.ok_or(Refusal::AtLimit)?;
        let body = body::read(body, &self.endpoint.limits)
            .await
            .map_err(Refusal::Body)?;
        memory.keep(body.len());
        // The body may have taken longer than its token was valid.
        let revoked = self.client.revoked();
        if revoked.is_some_and(|revoked| revoked.is_cancelled()) {
            return Err(Refusal::Unauthorized);
        }
        // After the body: a slow body must not take the permit of another request.
        let permit = self.endpoint.permit().ok_or(Refusal::AtLimit)?;
        let permit = RequestPermit {
            _request: permit,
            _body: memory,
        };
        Ok((session, body, permit))
    }

    /// Refuses a request if no permit is left or it is not JSON.
    fn admit(&self) -> Result<(), Refusal> {
        if self.endpoint.in_flight.available_permits() == 0 {
            return Err(Refusal::AtLimit);
        }
        if !self.client.headers.is_json {
            return Err(Refusal::NotJson);
        }
        if !self.client.headers.is_unencoded {
            return Err(Refusal::Encoded);
        }
        Ok(())
    }

    /// Opens the session that the request names. The modern era has no sessions and ignores their ids.
    async fn session(&self) -> Result<Option<Session>, Refusal> {
        let facts = &self.client.headers;
        if facts.era == Era::Modern {
            return Ok(None);
        }
        let Some(id) = facts.protocol.as_ref().and_then(|fields| fields.session()) else {
            return Ok(None);
        };
        let session = self.endpoint.session(Some(id), &self.client).await;
        session.map(Some).ok_or(Refusal::SessionNotFound)
    }

    /// Calls the server. A client that accepts events gets a stream for the messages of the call.
    fn call(
        &mut self,
        session: Option<Session>,
        body: Bytes,
        permit: RequestPermit,
    ) -> (PendingReply<'_>, Option<Receiver<ServerMessage>>) {
        let Self {
            endpoint,
            client,
            headers,
        } = self;
        let endpoint = *endpoint;
        let HeaderFacts {
            era,
            accepts,
            is_subscription,
            repeats_arguments,
            ..
        } = client.headers;
        // Boxed: few requests have some.
        let arguments = repeats_arguments.then(|| Box::new(std::mem::take(headers)));
        let protocol = client.headers.protocol.take();
        let (peer, messages) = accepts.events.then(MessageSender::new).unzip();
        let peer = peer.map(|sender| Arc::new(sender) as Arc<dyn Peer>);
        let replay = session
            .as_ref()
            .map(|session| session.replay_policy(endpoint.limits.keep_alive_interval));
        // For the client that asks another process for its stream.
        let is_shared = replay.is_some() && endpoint.shared.get().is_some();
        let message = is_shared.then(|| body.clone());
        let session_id = session.as_ref().map(|session| Arc::clone(session.id()));
        let client_gone = Arc::<CancellationToken>::default();
        // Before the modern era a client that disconnects does not cancel its call.
        let cancelled = (era == Era::Modern).then(|| Arc::clone(&client_gone));
        let caller = Caller::new(session_id, peer)
            .with_cancellation(cancelled)
            .with_disconnect(Some(Arc::clone(&client_gone)))
            .with_principal(client.principal().cloned())
            .with_view(client.view().cloned())
            .with_address(client.address)
            .with_revocation(client.revoked().cloned());
        let is_subscription = era == Era::Modern && is_subscription;
        let (permit, accepting) = match is_subscription {
            true => (None, Some(permit)),
            false => (Some(permit), None),
        };
        let server = Arc::clone(&endpoint.server);
        let answer = async move {
            let connection = session
                .as_ref()
                .map(|session| Arc::clone(&session.connection));
            let params = arguments.as_deref().map(params).unwrap_or_default();
            let hints = protocol.as_ref().map(|protocol| protocol.hints());
            let hints = Hints {
                params: &params,
                has_headers: true,
                ..hints.unwrap_or_default()
            };
            let answer = server
                .handle(IncomingFrame {
                    frame: &body,
                    hints,
                    connection,
                    caller,
                })
                .await;
            drop(permit);
            answer
        };
        let reply = PendingReply {
            endpoint,
            client,
            accepts,
            message,
            headers,
            replay,
            is_subscription,
            _accepting: accepting,
            call: InFlightCall::new(answer, Some(client_gone)),
        };
        (reply, messages)
    }
}

impl PendingReply<'_> {
    /// Replies with JSON if the answer comes first and the client accepts JSON; with a stream of events if
    /// the call sends messages before.
    async fn send(mut self, messages: Option<Receiver<ServerMessage>>) -> Response<Reply> {
        let Some(mut messages) = messages else {
            let answer = (&mut self.call).await;
            return self.answered(answer, None);
        };
        let may_wait = self.accepts.json || self.is_subscription;
        match FirstEvent::next(&mut self.call, &mut messages, may_wait).await {
            FirstEvent::Answer(answer) => self.answered(answer, Some(messages)),
            FirstEvent::Message(message) if self.is_subscription => {
                let slots = &self.endpoint.slots;
                match slots.acquire(self.client.share()) {
                    Some(slot) => {
                        let events = self.events(message.into_event(), messages);
                        reply::idle_stream(events.in_slot(slot))
                    }
                    None => reply::too_many_streams(self.endpoint.limits.max_streams_per_client),
                }
            }
            FirstEvent::Message(message) => self.stream(Some(message), messages),
            FirstEvent::Nothing => self.stream(None, messages),
        }
    }

    /// Replies to a call that has sent no message before its answer.
    fn answered(
        mut self,
        answer: FrameReply,
        messages: Option<Receiver<ServerMessage>>,
    ) -> Response<Reply> {
        match messages {
            Some(messages) if !self.accepts.json && answer.status == 200 => {
                let session = self.new_session(answer.negotiated);
                let events = self.events(answer.into_line(), messages);
                reply::with_session(reply::events(events), session)
            }
            _ => self.json(answer),
        }
    }

    fn json(&mut self, answer: FrameReply) -> Response<Reply> {
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        let response = match answer.body {
            Some(body) => reply::json_in(std::mem::take(self.headers), status, body),
            None => reply::empty(status),
        };
        reply::with_session(response, self.new_session(answer.negotiated))
    }

    /// Replies with a stream that can be resumed, if there is a session and another stream can be kept.
    fn stream(
        mut self,
        first: Option<ServerMessage>,
        messages: Receiver<ServerMessage>,
    ) -> Response<Reply> {
        let streams = &self.endpoint.streams;
        match self.replay.take().filter(|_| streams.make_room()) {
            Some(mut policy) => {
                policy.request = self.message.as_deref().and_then(request_digits);
                match streams.start(policy, first, messages, self.call) {
                    Some(replay) => reply::resumable(replay.until(self.client.revocation())),
                    None => reply::busy(),
                }
            }
            None => {
                let first = first.and_then(ServerMessage::into_event);
                reply::events(self.events(first, messages))
            }
        }
    }

    /// Returns a stream that ends with its connection.
    fn events(self, first: Option<Vec<u8>>, messages: Receiver<ServerMessage>) -> EventStream {
        let (keep_alive, revocation) = (
            self.endpoint.limits.keep_alive_interval,
            self.client.revocation(),
        );
        EventStream::new(first, messages, self.call, keep_alive, revocation)
    }

    /// Returns the id of the session that an `initialize` request has negotiated.
    fn new_session(&self, negotiated: Option<Negotiated>) -> Option<HeaderValue> {
        let id = self
            .endpoint
            .sessions
            .create_id(negotiated?, self.client.owner())?;
        HeaderValue::try_from(id).ok()
    }
}
