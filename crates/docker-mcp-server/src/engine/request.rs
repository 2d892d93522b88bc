//! Requests whose replies we read ourselves.
//!
//! The client's own calls read a reply whole, however large, and one value that its types do not
//! know (a state that a newer engine invented) fails a whole list. So we take the bytes, up to a
//! limit, and pick the fields that we use. The client hands bytes over for one endpoint only, the
//! container export; its request hook sends that request where we want it.

use bollard::errors::Error;
use bollard::{BollardRequest, Docker};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Uri;
use http::uri::PathAndQuery;

use super::failure::Failure;

/// The reply to `GET path`, in pieces.
///
/// Without a version in the path the engine speaks its newest one. That is wanted: there is no
/// version that the engines of 2020 and of next year both accept, and what we read is in all.
pub(super) fn get(
    docker: &Docker,
    path: PathAndQuery,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + Unpin + use<> {
    let redirect = move |mut request: BollardRequest| {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(path.clone());
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        request
    };
    let docker = docker.clone().with_request_modifier(redirect);
    Box::pin(docker.export_container("-"))
}

/// The reply to `GET path`, whole, if it has at most `limit` bytes.
pub(super) async fn read(
    docker: &Docker,
    path: PathAndQuery,
    limit: usize,
) -> Result<Vec<u8>, Failure> {
    let mut reply = get(docker, path);
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
