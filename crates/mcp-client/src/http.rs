//! The Streamable HTTP transport: one POST per message, answered with JSON or an event stream.

mod client;
mod endpoint;
mod exchange;
mod headers;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_core::trace::PeerAddress;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub(crate) use self::client::{Content, HttpClient, JSON, challenges, fetch};
pub use self::client::{Poster, http_client};
pub use self::endpoint::{Authorization, Endpoint, TokenRefusal};
use self::exchange::Exchange;
pub(crate) use self::exchange::{Events, message};
pub(crate) use self::headers::{HeaderParamCache, request_headers, trace_headers};
use self::headers::{PROTOCOL_VERSION, SESSION_ID};
use crate::Error;
use crate::inbound::Inbound;
use crate::inbound::ResponseRoutes;
use crate::message::{HeaderList, Outgoing};

/// Timeout of messages whose outcome is ignored.
const DETACHED_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP transport to one server.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    client: HttpClient,
    /// The headers of the session of the legacy era; empty in other eras.
    session: Mutex<HeaderMap>,
    inbound: Arc<Inbound>,
    closed: CancellationToken,
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint, inbound: Arc<Inbound>) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            client: HttpClient::new(endpoint)?,
            session: Mutex::default(),
            inbound,
            closed: CancellationToken::new(),
        })))
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        self.0.client.peer()
    }

    pub(crate) fn address(&self) -> Option<PeerAddress<'_>> {
        self.0.client.address()
    }

    fn session(&self) -> HeaderMap {
        self.0.session.lock().clone()
    }

    /// Opens the GET stream of the legacy era, for messages of the server outside of any request. The
    /// returned future handles them until the server ends it; a broken stream is resumed if it named its
    /// last event.
    pub(crate) async fn open_server_stream(
        &self,
    ) -> Result<impl Future<Output = Result<(), Error>> + Send + 'static, Error> {
        let opened = self.0.client.open_stream(None, &self.session()).await?;
        let http = self.clone();
        Ok(async move {
            // No request has this id, so no message is taken for a response.
            let exchange = Exchange::new(&http, 0, None, true);
            exchange.follow_streams(opened).await.map(drop)
        })
    }

    pub(crate) async fn exchange(
        &self,
        request: Outgoing<'_>,
        routes: Arc<ResponseRoutes>,
    ) -> Result<Box<RawValue>, Error> {
        let opens_session = request.method == "initialize";
        let session = match opens_session || request.is_modern {
            true => HeaderMap::new(),
            false => self.session(),
        };
        let exchange = Exchange::new(self, request.id, Some(routes), !request.is_modern);
        let posting = self.0.client.post(request.body, request.headers, &session);
        let response = posting.await?;
        if let Some(id) = response.headers().get(SESSION_ID).filter(|_| opens_session) {
            let mut id = id.clone();
            id.set_sensitive(true);
            self.0.session.lock().insert(SESSION_ID, id);
        }
        exchange.response(response).await
    }

    pub(crate) async fn send(&self, message: String, headers: HeaderList) -> Result<(), Error> {
        let session = self.session();
        let posted = self.0.client.post(message, headers, &session).await;
        posted.map(drop)
    }

    /// Sends a cancellation in the legacy era. In the others closing the stream cancels the request.
    pub(crate) fn cancel(&self, message: String) {
        if !self.session().contains_key(PROTOCOL_VERSION) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let http = self.clone();
        runtime.spawn(async move { http.send_detached(message).await });
    }

    /// Sets the revision of a legacy handshake; `None` ends the session of the last one.
    pub(crate) fn set_revision(&self, revision: Option<&'static str>) {
        let mut session = self.0.session.lock();
        match revision {
            Some(revision) => {
                session.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision));
            }
            None => session.clear(),
        }
    }

    /// Waits until [`Http::close`]: TCP connections come and go, which does not close the client.
    pub(crate) async fn closed(&self) -> String {
        self.0.closed.cancelled().await;
        "it was closed".to_owned()
    }

    /// Ends the session, if there is one. A server may refuse (405), and a server that has exited has
    /// no session to end.
    pub(crate) async fn close(&self) {
        let session = std::mem::take(&mut *self.0.session.lock());
        self.0.closed.cancel();
        if !session.contains_key(SESSION_ID) {
            return;
        }
        let delete = self.0.client.delete(&session);
        match tokio::time::timeout(DETACHED_TIMEOUT, delete).await {
            Ok(Err(Error::Http { status, .. }))
                if status == StatusCode::METHOD_NOT_ALLOWED.as_u16() => {}
            Ok(Err(error)) => tracing::debug!(%error, "session not ended"),
            Ok(Ok(())) | Err(_) => {}
        }
    }

    /// Sends a message whose outcome is ignored.
    async fn send_detached(&self, message: String) {
        let sending = self.send(message, HeaderList::new());
        if let Ok(Err(error)) = tokio::time::timeout(DETACHED_TIMEOUT, sending).await {
            tracing::debug!(%error, "message not delivered");
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.and_then(|kind| kind.split(|byte| *byte == b';').next());
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}
