//! The path `/mcp`: `POST` calls the server, `GET` opens or resumes a stream of a session, `DELETE` ends
//! a session.

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
    /// One permit for each request in flight.
    in_flight: Arc<Semaphore>,
}

/// An authenticated request.
#[derive(Clone, Copy)]
pub(super) struct Authenticated<'a> {
    /// The name of its token; `None` where no token is required.
    pub(super) principal: Option<&'a Arc<str>>,
    /// True if the request has MCP headers; most have none.
    pub(super) sends_mcp_headers: bool,
}

impl<'a> Authenticated<'a> {
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
            in_flight: Arc::new(Semaphore::new(limits.max_in_flight)),
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The number of requests in flight.
    pub(super) fn calls_in_flight(&self) -> usize {
        self.limits
            .max_in_flight
            .saturating_sub(self.in_flight.available_permits())
    }

    pub(super) async fn post<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        client: Authenticated<'_>,
    ) -> Response<Reply> {
        let (head, body) = request.into_parts();
        Post::new(self, client, head.headers).answer(body).await
    }

    /// Resumes an interrupted stream, else opens the stream that reports changes to a session.
    pub(super) fn get(&self, headers: &HeaderMap, client: Authenticated<'_>) -> Response<Reply> {
        let Some(session) = self.session(headers, client) else {
            return self.refuse(headers, &Error::SessionNotFound);
        };
        let replay = last_event_id(headers).and_then(|last| {
            self.streams
                .resume(session.id(), last, self.limits.keep_alive_interval)
        });
        if let Some(replay) = replay {
            return reply::resumable(replay);
        }
        let (sender, messages) = MessageSender::new();
        let server = Arc::clone(&self.server);
        let replaced = session.connection.replace_stream();
        let client_gone = replaced.clone();
        let watch = async move {
            tokio::select! {
                () = server.watch(&session.connection, &sender) => {}
                () = replaced.cancelled() => {}
            }
            FrameReply::nothing()
        };
        let call = InFlightCall::new(watch, client_gone);
        let events = EventStream::new(None, messages, call, self.limits.keep_alive_interval);
        reply::idle_stream(events)
    }

    /// Ends a session.
    pub(super) fn delete(&self, headers: &HeaderMap, client: Authenticated<'_>) -> Response<Reply> {
        let ended = session_id(headers).filter(|id| self.sessions.end(id, client.name()));
        let Some(id) = ended else {
            return self.refuse(headers, &Error::SessionNotFound);
        };
        self.streams.forget(id);
        self.server.forget(id);
        reply::empty(StatusCode::NO_CONTENT)
    }

    /// Returns the response to a request that is refused by its headers.
    pub(super) fn refuse(&self, headers: &HeaderMap, error: &Error) -> Response<Reply> {
        let era = Era::from_headers(&hints(headers));
        reply::refused(error, era, self.server.profile())
    }

    fn session(&self, headers: &HeaderMap, client: Authenticated<'_>) -> Option<Session> {
        session_id(headers).and_then(|id| self.sessions.open(id, client.name()))
    }
}
