//! Streamable HTTP: one POST per message, answered with JSON or with a stream of events.

mod annotations;
mod connection;
mod endpoint;
mod exchange;
mod headers;
mod notices;
mod pool;
mod session;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub(crate) use self::annotations::Annotations;
use self::connection::Connection;
pub use self::endpoint::Endpoint;
use self::exchange::Exchange;
pub(crate) use self::headers::{Fields, request_headers, trace};
use self::session::{Headers, Session};
use crate::Error;
use crate::inbound::Inbound;
use crate::outgoing::Outgoing;
use crate::sink::Sink;

/// What a message that nobody waits for may take.
const DETACHED: Duration = Duration::from_secs(5);

/// The way to a server over HTTP.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    connection: Connection,
    session: Session,
    inbound: Arc<Inbound>,
    closed: CancellationToken,
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint, inbound: Arc<Inbound>) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            connection: Connection::new(endpoint)?,
            session: Session::default(),
            inbound,
            closed: CancellationToken::new(),
        })))
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        self.0.connection.peer()
    }

    pub(crate) async fn exchange(
        &self,
        request: Outgoing,
        sink: Sink,
    ) -> Result<Box<RawValue>, Error> {
        let opens_session = request.method == "initialize";
        let session = match opens_session || headers::are_modern(&request.headers) {
            true => Headers::default(),
            false => self.0.session.headers(),
        };
        let exchange = Exchange::new(self, request.id, sink).resumable(request.is_resumable);
        let connection = &self.0.connection;
        let response = connection
            .post(request.body, request.headers, &session)
            .await?;
        if opens_session {
            self.0.session.open(response.headers());
        }
        exchange.answer(response).await
    }

    pub(crate) async fn send(&self, message: String, headers: Fields) -> Result<(), Error> {
        let session = self.0.session.headers();
        let posted = self.0.connection.post(message, headers, &session).await;
        posted.map(drop)
    }

    /// Closing the stream is all that a server without a handshake understands; one with a handshake
    /// wants to be told.
    pub(crate) fn cancel(&self, message: String) {
        if !self.0.session.headers().agreed() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let http = self.clone();
        runtime.spawn(async move { http.send_in_time(message).await });
    }

    pub(crate) fn forget_session(&self) {
        self.0.session.forget();
    }

    pub(crate) fn agree_on(&self, revision: &'static str) {
        self.0.session.agree_on(revision);
    }

    /// Waits until it was closed: connections come and go, and mean nothing.
    pub(crate) async fn ended(&self) -> String {
        self.0.closed.cancelled().await;
        "it was closed".to_owned()
    }

    /// Ends the session, where there is one. A server may refuse (405), and one that is gone has no
    /// session to end.
    pub(crate) async fn close(&self) {
        let session = self.0.session.headers();
        self.0.session.forget();
        self.0.closed.cancel();
        if session.id.is_none() {
            return;
        }
        let delete = self.0.connection.delete(&session);
        match tokio::time::timeout(DETACHED, delete).await {
            Ok(Err(Error::Http { status, .. }))
                if status == StatusCode::METHOD_NOT_ALLOWED.as_u16() => {}
            Ok(Err(error)) => tracing::debug!(%error, "session not ended"),
            Ok(Ok(())) | Err(_) => {}
        }
    }

    /// Sends a message on whose fate nothing depends.
    async fn send_in_time(&self, message: String) {
        let sending = tokio::time::timeout(DETACHED, self.send(message, Fields::new()));
        if let Ok(Err(error)) = sending.await {
            tracing::debug!(%error, "message not delivered");
        }
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}
