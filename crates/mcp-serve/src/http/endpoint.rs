//! The paths of a server, and what happens to a `POST /mcp`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use http::header::{HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming as RequestBody;
use mcp_core::era::{Era, Hints};
use mcp_core::error::Error;
use mcp_core::server::{Agreed, Answer, Incoming, Server};
use mcp_core::sign::Signer;
use mcp_core::tool::{Call, Peer};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::body::{self, Refused};
use super::headers::{
    Accepts, SESSION, check_unambiguous, hints, is_json, is_subscription, last_event_id, params,
    session_id,
};
use super::metrics;
use super::rate::RateLimit;
use super::reply::{self, Reply};
use super::resume::{Streams, Terms};
use super::session::{Session, Sessions};
use super::stream::{EventStream, First, Outbox, Said, Work};
use super::{Guard, Limits};

pub(super) struct Endpoint {
    server: Arc<Server>,
    guard: Guard,
    sessions: Arc<Sessions>,
    streams: Arc<Streams>,
    rate: Option<RateLimit>,
    limits: Limits,
    address: SocketAddr,
    in_flight: Arc<Semaphore>,
}

impl Endpoint {
    pub(super) fn new(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        address: SocketAddr,
    ) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits.in_flight));
        let sessions = Arc::new(Sessions::new(signer));
        Self {
            server,
            guard,
            sessions,
            streams: Arc::default(),
            rate: limits.rate.map(RateLimit::new),
            limits,
            address,
            in_flight,
        }
    }

    pub(super) async fn answer(
        &self,
        request: Request<RequestBody>,
        peer: IpAddr,
    ) -> Response<Reply> {
        let headers = request.headers();
        // What tells nothing of the service needs no token: what this is, and whether it lives.
        let is_public = match request.uri().path() {
            "/mcp" => request.method() != Method::POST && !headers.contains_key(SESSION),
            path => path != "/metrics",
        };
        let checked = if is_public {
            self.guard.check_names(request.uri(), headers).map(|()| "")
        } else {
            self.guard.check(request.uri(), headers)
        };
        let admitted = checked.and_then(|principal| {
            let has_ours = check_unambiguous(headers)?;
            // A busy client must not make its server look dead.
            if request.uri().path() == "/mcp" {
                self.admit(principal, peer)?;
            }
            Ok((principal, has_ours))
        });
        let (principal, has_ours) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => {
                tracing::debug!(kind = error.kind(), "refused");
                return self.refused(headers, &error);
            }
        };
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/mcp") => self.post(request, principal, has_ours).await,
            (&Method::GET, "/mcp")
                if headers.contains_key(SESSION) && Accepts::of(headers).events =>
            {
                self.watch(headers, principal)
            }
            (&Method::DELETE, "/mcp") if headers.contains_key(SESSION) => {
                self.end(headers, principal)
            }
            (_, "/mcp") => reply::method_not_allowed(&self.help()),
            (&Method::GET | &Method::HEAD, "/healthz") => {
                reply::json(StatusCode::OK, r#"{"status":"ok"}"#)
            }
            (&Method::GET | &Method::HEAD, "/readyz") => self.ready(),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let in_flight = self
                    .limits
                    .in_flight
                    .saturating_sub(self.in_flight.available_permits());
                reply::text(metrics::render(&self.server, in_flight))
            }
            _ => reply::json(StatusCode::NOT_FOUND, format!("{:#}\n", self.help())),
        }
    }

    /// Counts a request against the rate of its client: of a token where there are tokens, else of
    /// an address.
    fn admit(&self, principal: &str, peer: IpAddr) -> Result<(), Error> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        let address;
        let client = if principal.is_empty() {
            address = peer.to_string();
            &address
        } else {
            principal
        };
        rate.admit(client, Instant::now())
            .map_err(Error::RateLimited)
    }

    /// `has_ours`: there are headers of MCP, which most requests do without.
    async fn post(
        &self,
        request: Request<RequestBody>,
        principal: &str,
        has_ours: bool,
    ) -> Response<Reply> {
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        // Nothing is read for whom nothing will be done.
        if self.in_flight.available_permits() == 0 {
            return reply::busy();
        }
        if !is_json(headers) {
            let body = json!({"error": "send the message as Content-Type: application/json"});
            return reply::json(StatusCode::UNSUPPORTED_MEDIA_TYPE, body.to_string());
        }
        let is_modern = has_ours && Era::of_unreadable(&hints(headers)) == Era::Modern;
        // The modern era has no sessions and ignores their ids.
        let session = match has_ours.then(|| session_id(headers)).flatten() {
            Some(id) if !is_modern => match self.sessions.open(id, principal) {
                Some(session) => Some(session),
                None => return self.refused(headers, &Error::SessionNotFound),
            },
            _ => None,
        };
        let body = match body::read(body, &self.limits).await {
            Ok(body) => body,
            Err(Refused::TooLarge) => {
                return self.refused(headers, &Error::TooLarge(self.limits.body));
            }
            Err(Refused::TooSlow) => return reply::empty(StatusCode::REQUEST_TIMEOUT),
            Err(Refused::Broken) => return reply::empty(StatusCode::BAD_REQUEST),
        };
        // Only now: a body that trickles in keeps nobody out.
        let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            return reply::busy();
        };
        let accepts = Accepts::of(headers);
        let (peer, messages) = accepts.events.then(Outbox::new).unzip();
        let peer = peer.map(|outbox| Arc::new(outbox) as Arc<dyn Peer>);
        let terms = session
            .as_ref()
            .map(|session| session.terms(self.limits.keep_alive));
        let server = Arc::clone(&self.server);
        let named = Some(principal).filter(|name| !name.is_empty());
        let caller = named.or(session.as_ref().map(Session::id));
        let left = CancellationToken::new();
        // Before the modern era a client that goes away gives nothing up.
        let cancelled = is_modern.then(|| left.clone());
        let call = Call::new(cancelled, peer).of(caller.map(Arc::from), left.clone());
        // A subscription is a request that only waits: what bounds those is the connections.
        let lasts = has_ours && is_subscription(headers);
        let permit = (!lasts).then_some(permit);
        let work = async move {
            let connection = session
                .as_ref()
                .map(|session| Arc::clone(&session.connection));
            let none = HeaderMap::new();
            let headers = if has_ours { &head.headers } else { &none };
            let params = params(headers);
            let hints = Hints {
                params: &params,
                ..hints(headers)
            };
            let answer = server
                .handle(Incoming {
                    frame: &body,
                    hints,
                    connection,
                    call,
                })
                .await;
            drop(permit);
            answer
        };
        let mut work = Work::new(work, left);
        let Some(mut messages) = messages else {
            return self.plain(work.await, principal);
        };
        match First::of(&mut work, &mut messages, accepts.json).await {
            First::Answer(answer) if accepts.json || answer.status != 200 => {
                self.plain(answer, principal)
            }
            First::Answer(answer) => {
                let agreed = answer.agreed;
                let events = self.events(answer.into_line(), messages, work);
                self.with_session(reply::events(events), agreed, principal)
            }
            // A call that says something before its answer turns the reply into a stream.
            First::Said(said) if lasts && is_modern => {
                reply::lasting(self.events(event_of(said), messages, work))
            }
            First::Said(said) => self.resumable(terms, Some(said), messages, work),
            First::Nothing => self.resumable(terms, None, messages, work),
        }
    }

    /// A stream that ends with its connection.
    fn events(&self, first: Option<Vec<u8>>, messages: Receiver<Said>, work: Work) -> EventStream {
        EventStream::new(first, messages, work, self.limits.keep_alive)
    }

    /// A stream that can be resumed, where there is a session that it can be resumed in.
    fn resumable(
        &self,
        terms: Option<Terms>,
        said: Option<Said>,
        messages: Receiver<Said>,
        work: Work,
    ) -> Response<Reply> {
        match terms.filter(|_| self.streams.has_room()) {
            Some(terms) => match self.streams.start(terms, said, messages, work) {
                Some(reading) => reply::resumable(reading),
                None => reply::busy(),
            },
            None => reply::events(self.events(said.and_then(event_of), messages, work)),
        }
    }

    fn plain(&self, answer: Answer, principal: &str) -> Response<Reply> {
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        let response = match answer.body {
            Some(body) => reply::json(status, body),
            None => reply::empty(status),
        };
        self.with_session(response, answer.agreed, principal)
    }

    /// Adds the id of the session that an `initialize` has agreed on.
    fn with_session(
        &self,
        mut response: Response<Reply>,
        agreed: Option<Agreed>,
        principal: &str,
    ) -> Response<Reply> {
        let session = agreed.and_then(|agreed| self.sessions.mint(agreed, principal));
        if let Some(id) = session.and_then(|id| HeaderValue::try_from(id).ok()) {
            response.headers_mut().insert(SESSION, id);
        }
        response
    }

    /// The rest of a stream that was interrupted, else the stream on which a session is told of
    /// changes.
    fn watch(&self, headers: &HeaderMap, principal: &str) -> Response<Reply> {
        let Some(session) = self.session(headers, principal) else {
            return self.refused(headers, &Error::SessionNotFound);
        };
        let rest = last_event_id(headers).and_then(|last| {
            self.streams
                .resume(session.id(), last, self.limits.keep_alive)
        });
        if let Some(reading) = rest {
            return reply::resumable(reading);
        }
        let (outbox, messages) = Outbox::new();
        let server = Arc::clone(&self.server);
        let over = session.connection.take_over();
        let left = over.clone();
        let work = async move {
            tokio::select! {
                () = server.watch(&session.connection, &outbox) => {}
                () = over.cancelled() => {}
            }
            Answer::nothing()
        };
        let work = Work::new(work, left);
        reply::lasting(self.events(None, messages, work))
    }

    fn end(&self, headers: &HeaderMap, principal: &str) -> Response<Reply> {
        let ended = session_id(headers).filter(|id| self.sessions.end(id, principal));
        let Some(id) = ended else {
            return self.refused(headers, &Error::SessionNotFound);
        };
        self.streams.forget(id);
        self.server.forget(id);
        reply::empty(StatusCode::NO_CONTENT)
    }

    fn session(&self, headers: &HeaderMap, principal: &str) -> Option<Session> {
        session_id(headers).and_then(|id| self.sessions.open(id, principal))
    }

    fn refused(&self, headers: &HeaderMap, error: &Error) -> Response<Reply> {
        reply::refused(
            error,
            Era::of_unreadable(&hints(headers)),
            self.server.profile(),
        )
    }

    fn ready(&self) -> Response<Reply> {
        match self.server.degraded() {
            None => reply::json(StatusCode::OK, r#"{"status":"online"}"#),
            Some(reason) => {
                let body = json!({"status": "degraded", "reason": reason});
                reply::json(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
            }
        }
    }

    /// What this is and how to use it, for people who look at it with a browser or a bare `curl`.
    fn help(&self) -> Value {
        let identity = self.server.identity();
        json!({
            "name": identity.name,
            "version": identity.version,
            "description": identity.description,
            "protocol": "Model Context Protocol, JSON-RPC 2.0: POST one message to /mcp",
            "example": format!(
                "curl http://{}/mcp -H 'Content-Type: application/json' -d '{}'",
                self.address,
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#
            ),
        })
    }
}

/// What is written of it on a stream that cannot be resumed.
fn event_of(said: Said) -> Option<Vec<u8>> {
    match said {
        Said::Message(message) => Some(message.into_bytes()),
        Said::Disconnect => None,
    }
}
