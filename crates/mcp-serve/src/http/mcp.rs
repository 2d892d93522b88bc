//! The path `/mcp`: `POST` calls the server, `GET` reads a stream of a session, `DELETE` ends one.

mod post;

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, Response, StatusCode};
use hyper::body::Body;
use mcp_core::era::Era;
use mcp_core::error::Error;
use mcp_core::server::{FrameReply, Server};
use mcp_core::sign::Signer;
use tokio::sync::Semaphore;

use super::events::{EventStream, InFlightCall, MessageSender, ResumableStreams};
use super::headers::{hints, last_event_id, session_id};
use super::limits::Limits;
use super::reply::{self, Reply};
use super::session::{Session, Sessions};
use post::Post;

pub(super) struct McpEndpoint {
    server: Arc<Server>,
    sessions: Arc<Sessions>,
    streams: Arc<ResumableStreams>,
    limits: Limits,
    /// One permit for each request that is being worked on.
    in_flight: Arc<Semaphore>,
}

/// The sender of a request that was let in.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    /// The name of its token; `None` where no token is required.
    pub(super) principal: Option<&'a Arc<str>>,
    /// The request has headers of MCP, which most do without.
    pub(super) sends_mcp_headers: bool,
}

impl<'a> Client<'a> {
    /// The name of its token; empty where no token is required.
    pub(super) fn name(&self) -> &'a str {
        self.principal.map_or("", |name| name)
    }
}

impl McpEndpoint {
    pub(super) fn new(server: Arc<Server>, signer: Signer, limits: Limits) -> Self {
        Self {
            server,
            sessions: Arc::new(Sessions::new(signer)),
            streams: Arc::default(),
            limits,
            in_flight: Arc::new(Semaphore::new(limits.in_flight)),
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The number of requests that are being worked on.
    pub(super) fn calls_in_flight(&self) -> usize {
        self.limits
            .in_flight
            .saturating_sub(self.in_flight.available_permits())
    }

    pub(super) async fn post<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        client: Client<'_>,
    ) -> Response<Reply> {
        let (head, body) = request.into_parts();
        Post::new(self, client, head.headers).answer(body).await
    }

    /// Resumes a stream that was interrupted, else opens the stream on which a session is told of
    /// changes.
    pub(super) fn get(&self, headers: &HeaderMap, client: Client<'_>) -> Response<Reply> {
        let Some(session) = self.session(headers, client) else {
            return self.refuse(headers, &Error::SessionNotFound);
        };
        let rest = last_event_id(headers).and_then(|last| {
            self.streams
                .resume(session.id(), last, self.limits.keep_alive)
        });
        if let Some(replay) = rest {
            return reply::resumable(replay);
        }
        let (sender, messages) = MessageSender::new();
        let server = Arc::clone(&self.server);
        let over = session.connection.replace_stream();
        let client_gone = over.clone();
        let watch = async move {
            tokio::select! {
                () = server.watch(&session.connection, &sender) => {}
                () = over.cancelled() => {}
            }
            FrameReply::nothing()
        };
        let call = InFlightCall::new(watch, client_gone);
        let events = EventStream::new(None, messages, call, self.limits.keep_alive);
        reply::idle_stream(events)
    }

    /// Ends a session.
    pub(super) fn delete(&self, headers: &HeaderMap, client: Client<'_>) -> Response<Reply> {
        let ended = session_id(headers).filter(|id| self.sessions.end(id, client.name()));
        let Some(id) = ended else {
            return self.refuse(headers, &Error::SessionNotFound);
        };
        self.streams.forget(id);
        self.server.forget(id);
        reply::empty(StatusCode::NO_CONTENT)
    }

    /// The response to a request that is refused by its headers.
    pub(super) fn refuse(&self, headers: &HeaderMap, error: &Error) -> Response<Reply> {
        let era = Era::from_headers(&hints(headers));
        reply::refused(error, era, self.server.profile())
    }

    fn session(&self, headers: &HeaderMap, client: Client<'_>) -> Option<Session> {
        session_id(headers).and_then(|id| self.sessions.open(id, client.name()))
    }
}
