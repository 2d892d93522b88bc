//! The Streamable HTTP transport: one POST per message, answered with JSON or an event stream.

mod client;
mod connector;
mod endpoint;
mod exchange;
mod fetch;
mod header_params;
mod headers;
mod pool;
mod poster;
mod server_stream;
mod session;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_core::trace::PeerAddress;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub(crate) use self::client::HttpClient;
pub use self::endpoint::Endpoint;
use self::exchange::Exchange;
pub(crate) use self::fetch::{Content, challenges, fetch};
pub(crate) use self::header_params::HeaderParamCache;
pub(crate) use self::headers::{HeaderList, request_headers, trace_headers};
pub(crate) use self::pool::Body;
pub use self::poster::Poster;
use self::session::{Session, SessionHeaders};
pub(crate) use self::sse::{Event, Parser};
use crate::Error;
use crate::inbound::Inbound;
use crate::outgoing::Outgoing;
use crate::response_routes::ResponseRoutes;

/// Timeout of messages whose outcome is ignored.
const DETACHED_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP transport to one server.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    client: HttpClient,
    session: Session,
    inbound: Arc<Inbound>,
    closed: CancellationToken,
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint, inbound: Arc<Inbound>) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            client: HttpClient::new(endpoint)?,
            session: Session::default(),
            inbound,
            closed: CancellationToken::new(),
        })))
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        self.0.client.peer()
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> Option<PeerAddress<'_>> {
        self.0.client.address()
    }

    pub(crate) async fn exchange(
        &self,
        request: Outgoing<'_>,
        routes: Arc<ResponseRoutes>,
    ) -> Result<Box<RawValue>, Error> {
        let opens_session = request.method == "initialize";
        let session = match opens_session || headers::are_modern(&request.headers) {
            true => SessionHeaders::default(),
            false => self.0.session.headers(),
        };
        let exchange = Exchange::new(self, request.id, Some(routes), request.is_resumable);
        let posting = self.0.client.post(request.body, request.headers, &session);
        let response = posting.await?;
        if opens_session {
            self.0.session.open(response.headers());
        }
        exchange.response(response).await
    }

    pub(crate) async fn send(&self, message: String, headers: HeaderList) -> Result<(), Error> {
        let session = self.0.session.headers();
        let posted = self.0.client.post(message, headers, &session).await;
        posted.map(drop)
    }

    /// Sends a cancellation in the legacy era. In the others closing the stream cancels the request.
    pub(crate) fn cancel(&self, message: String) {
        if !self.0.session.headers().has_revision() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let http = self.clone();
        runtime.spawn(async move { http.send_detached(message).await });
    }

    pub(crate) fn set_revision(&self, revision: Option<&'static str>) {
        match revision {
            Some(revision) => self.0.session.set_revision(revision),
            None => self.0.session.clear(),
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
        let session = self.0.session.headers();
        self.0.session.clear();
        self.0.closed.cancel();
        if session.id.is_none() {
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
