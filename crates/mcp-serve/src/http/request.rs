//! One request, once its client is known, and its body, which is read within its limits of size and time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{EXPECT, HeaderMap, TRANSFER_ENCODING};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use mcp_core::error::Error;
use mcp_core::server::{Caller, Principal};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http::connections::ClientConnection;
use crate::http::limits::Limits;
use crate::http::reply;
use crate::http::reply::Refusal;
use crate::tokens::Credential;

/// A request. As an extractor it has passed the checks in front of every path.
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    /// In a mutex that is never locked: others may refer to the request while they wait.
    body: Mutex<Body>,
    /// Its TCP connection.
    pub(super) connection: Arc<ClientConnection>,
    /// `None` where no token is required.
    pub(super) credential: Option<Arc<Credential>>,
    /// The view that its path names.
    pub(super) view: Option<Arc<str>>,
}

impl HttpRequest {
    /// A request that was not checked.
    pub(super) fn new(request: Request) -> Self {
        let (head, body) = request.into_parts();
        let connection = head.extensions.get::<Arc<ClientConnection>>();
        let connection = connection.cloned().unwrap_or_else(|| {
            let peer = head.extensions.get().map(SocketAddr::ip);
            let address = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            let ending = CancellationToken::new();
            Arc::new(ClientConnection::new(address, false, ending))
        });
        Self {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: Mutex::new(body),
            connection,
            credential: None,
            view: None,
        }
    }

    pub(super) fn body(&mut self) -> &mut Body {
        self.body.get_mut()
    }

    /// The owner of its token; `None` where no token is required.
    pub(super) fn principal(&self) -> Option<&Arc<Principal>> {
        let credential = self.credential.as_ref();
        credential.map(|credential| &credential.principal)
    }

    /// The owner of its sessions: its principal, which is empty where no token is required, in its view.
    pub(super) fn owner(&self) -> String {
        let principal = self.principal().map_or("", |principal| &principal.name);
        match &self.view {
            // No name has a line end.
            Some(view) => format!("{principal}\n{view}"),
            None => principal.to_owned(),
        }
    }

    /// The key by which limits are counted: that of its principal if tokens are required, else that of its address.
    pub(super) fn limit_key(&self) -> String {
        match self.principal() {
            Some(principal) => principal.name.to_string(),
            None => self.connection.network().to_string(),
        }
    }

    /// Completes once its token is not valid any more.
    pub(super) fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let credential = self.credential.clone();
        async move {
            match credential {
                Some(credential) => credential.revoked.cancelled().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Completes the client of a call with what is known of it here.
    pub(super) fn identified(&self, caller: Caller) -> Caller {
        let credential = self.credential.as_ref();
        Caller {
            view: self.view.clone(),
            address: Some(self.connection.address),
            revoked: credential.map(|credential| Arc::clone(&credential.revoked)),
            ..caller.with_principal(self.principal().cloned())
        }
    }

    /// Completes the response to a request whose body was not read: unless that has arrived, it announces the end of
    /// the connection. Otherwise a client would send its next request into a closed connection.
    pub(super) fn unread(mut self, mut response: Response) -> Response {
        if !has_arrived(self.body.get_mut(), &self.headers) {
            reply::end_connection(&mut response);
            self.connection.set_sending();
        }
        response
    }
}

/// Bytes of a refused body that are read to keep its connection.
const MAX_DISCARDED_BYTES: usize = 64 * 1024;

/// Bytes of the body of a request that has no message of the protocol.
const MAX_OTHER_BODY_BYTES: usize = 32 * 1024;

/// Reads the body of a request that has no message of the protocol. It is so small that its memory is not counted.
///
/// # Errors
/// The body is too large, too slow or broken.
pub(super) async fn read_small_body(
    request: &mut HttpRequest,
    mut limits: Limits,
) -> Result<Bytes, Refusal> {
    limits.max_body_bytes = limits.max_body_bytes.min(MAX_OTHER_BODY_BYTES);
    let unreadable = |_| Refusal::Other(StatusCode::BAD_REQUEST, "the body cannot be read");
    read_body(request.body(), &limits).await.map_err(unreadable)
}

/// Reads a body of at most `limits.max_body_bytes` bytes. Refuses a larger declared length before reading
/// anything.
pub(super) async fn read_body(body: &mut Body, limits: &Limits) -> Result<Bytes, Refusal> {
    let too_large = Refusal::Error(Error::TooLarge(limits.max_body_bytes));
    if body.size_hint().lower() > limits.max_body_bytes as u64 {
        return Err(too_large);
    }
    let body = Limited::new(body, limits.max_body_bytes).collect();
    match timeout(limits.body_timeout, body).await {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large),
        // The connection broke, or the chunks are not valid HTTP.
        Ok(Err(_)) => Err(Refusal::Body(StatusCode::BAD_REQUEST, "broken_body")),
        Err(_) => Err(Refusal::Body(StatusCode::REQUEST_TIMEOUT, "slow_body")),
    }
}

/// Returns true if the end of the body of a request has arrived, as [`has_arrived`] does.
pub(super) fn is_over(request: &mut Request) -> bool {
    let headers = std::mem::take(request.headers_mut());
    let is_over = has_arrived(request.body_mut(), &headers);
    *request.headers_mut() = headers;
    is_over
}

/// Returns true if the end of a body has arrived. Discards the part that has arrived, without waiting for
/// more. Returns false for a body that waits for `100 Continue`, and for a chunked one, because a proxy may
/// see another end.
pub(super) fn has_arrived(body: &mut Body, headers: &HeaderMap) -> bool {
    if headers.contains_key(EXPECT) || headers.contains_key(TRANSFER_ENCODING) {
        return false;
    }
    let mut discarded = 0;
    while !body.is_end_stream() && discarded <= MAX_DISCARDED_BYTES {
        match body.frame().now_or_never() {
            Some(Some(Ok(frame))) => discarded += frame.data_ref().map_or(0, Bytes::len),
            Some(None) => return true,
            Some(Some(Err(_))) | None => return false,
        }
    }
    body.is_end_stream()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_have_one_limit() {
        for (address, key) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:0:1::7", "2001:db8:0:1::"),
            ("2001:db8:0:1:ffff::1", "2001:db8:0:1::"),
            ("2001:db8:0:2::7", "2001:db8:0:2::"),
        ] {
            let mut request = Request::new(Body::empty());
            let address = SocketAddr::new(address.parse().unwrap(), 1);
            request.extensions_mut().insert(address);
            assert_eq!(HttpRequest::new(request).limit_key(), key);
        }
    }
}
