//! Requests whose replies we read ourselves.
//!
//! The client's own calls read a reply whole, however large, and one value that its types do not
//! know (a state that a newer engine invented) fails a whole list. So we take the bytes, up to a
//! limit, and pick the fields that we use. The client hands bytes over for one endpoint only, the
//! container export; its request hook sends that request where we want it.

use bollard::errors::Error;
use bollard::{BollardRequest, Docker, body_full};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Uri};

use super::failure::Failure;

/// What is sent with a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    Json(Bytes),
    /// A tar archive.
    Tar(Bytes),
}

impl Body {
    /// `value` as JSON.
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::Json(value.to_string().into())
    }

    fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Tar(_) => "application/x-tar",
            Self::None | Self::Json(_) => "application/json",
        })
    }

    fn bytes(&self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::Json(bytes) | Self::Tar(bytes) => bytes.clone(),
        }
    }
}

/// The reply to `GET path`, in pieces.
pub(super) fn get(
    docker: &Docker,
    path: PathAndQuery,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + Unpin + use<> {
    send(docker, Method::GET, path, Body::None)
}

/// The reply to any request, in pieces.
///
/// Without a version in the path the engine speaks its newest one. That is wanted: there is no
/// version that the engines of 2020 and of next year both accept, and what we read is in all.
pub(super) fn send(
    docker: &Docker,
    method: Method,
    path: PathAndQuery,
    body: Body,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + Unpin + use<> {
    let redirect = move |mut request: BollardRequest| {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(path.clone());
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        *request.method_mut() = method.clone();
        request
            .headers_mut()
            .insert(CONTENT_TYPE, body.content_type());
        *request.body_mut() = body_full(body.bytes());
        request
    };
    let docker = docker.clone().with_request_modifier(redirect);
    Box::pin(docker.export_container("-"))
}

/// A whole reply, if it has at most `limit` bytes.
pub(super) async fn read(
    mut reply: impl Stream<Item = Result<Bytes, Error>> + Unpin,
    limit: usize,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = reply.next().await {
        let piece = piece?;
        if bytes.len() + piece.len() > limit {
            return Err(Failure::TooLarge(limit));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
