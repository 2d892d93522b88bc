//! Reads a request body within its limits of size and time.

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::StatusCode;
use http::header::{EXPECT, HeaderMap, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use mcp_core::error::Error;
use tokio::time::timeout;
use tower_http::timeout::{TimeoutBody, TimeoutError};

use super::limits::Limits;
use super::reply::Refusal;

/// Bytes of a refused body that are read to keep its connection.
const MAX_DISCARDED_BYTES: usize = 64 * 1024;

/// Reads a body of at most `limits.max_body_bytes` bytes. Refuses a larger declared length before reading
/// anything.
pub(super) async fn read(body: &mut Body, limits: &Limits) -> Result<Bytes, Refusal> {
    let too_large = Refusal::Error(Error::TooLarge(limits.max_body_bytes));
    let too_slow = Refusal::Body(StatusCode::REQUEST_TIMEOUT, "slow_body");
    if body.size_hint().lower() > limits.max_body_bytes as u64 {
        return Err(too_large);
    }
    let body = TimeoutBody::new(limits.body_idle_timeout, body);
    let body = Limited::new(body, limits.max_body_bytes).collect();
    // In addition to the timeout between two chunks, which a byte now and then would reset.
    match timeout(limits.body_timeout, body).await {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large),
        Ok(Err(error)) if error.is::<TimeoutError>() => Err(too_slow),
        // The connection broke, or the chunks are not valid HTTP.
        Ok(Err(_)) => Err(Refusal::Body(StatusCode::BAD_REQUEST, "broken_body")),
        Err(_) => Err(too_slow),
    }
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
