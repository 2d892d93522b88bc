//! Streamable HTTP: one POST per message, answered with JSON or with a stream of events.

mod connection;
mod endpoint;
mod exchange;
mod session;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use self::connection::Connection;
pub use self::endpoint::Endpoint;
use self::exchange::Exchange;
use self::session::Session;
use crate::incoming::Inbox;
use crate::outgoing::Outgoing;
use crate::{Error, Progress};

/// What a message that nobody waits for may take.
const DETACHED: Duration = Duration::from_secs(5);

/// The way to a server over HTTP.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    connection: Connection,
    session: Session,
    inbox: Inbox,
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint, inbox: Inbox) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            connection: Connection::new(endpoint)?,
            session: Session::default(),
            inbox,
        })))
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        self.0.connection.peer()
    }

    pub(crate) async fn exchange(
        &self,
        request: Outgoing,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Box<RawValue>, Error> {
        let opens_session = request.method == "initialize";
        let exchange = Exchange::new(self, request.id, progress);
        let session = self.0.session.headers();
        let connection = &self.0.connection;
        let response = connection.post(request.body, &session).await?;
        if opens_session {
            self.0.session.open(response.headers());
        }
        exchange.answer(response).await
    }

    pub(crate) async fn send(&self, message: String) -> Result<(), Error> {
        let session = self.0.session.headers();
        self.0.connection.post(message, &session).await.map(drop)
    }

    /// Closing the stream is all that a server without a handshake understands; one with a handshake
    /// wants to be told.
    pub(crate) fn cancel(&self, message: String) {
        if self.0.session.headers().agreed() {
            self.send_detached(message);
        }
    }

    pub(crate) fn forget_session(&self) {
        self.0.session.forget();
    }

    pub(crate) fn agree_on(&self, revision: &'static str) {
        self.0.session.agree_on(revision);
    }

    /// Ends the session, where there is one. A server may refuse (405), and one that is gone has no
    /// session to end.
    pub(crate) async fn close(&self) {
        let session = self.0.session.headers();
        self.0.session.forget();
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
    fn send_detached(&self, message: String) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let http = self.clone();
        runtime.spawn(async move {
            let sending = tokio::time::timeout(DETACHED, http.send(message));
            if let Ok(Err(error)) = sending.await {
                tracing::debug!(%error, "message not delivered");
            }
        });
    }
}
