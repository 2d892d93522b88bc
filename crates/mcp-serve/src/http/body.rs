//! Reads a request body within its limits of size and time.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::header::{EXPECT, HeaderMap, TRANSFER_ENCODING};
use http_body_util::BodyExt as _;
use hyper::body::Body;

use super::limits::Limits;

/// Bytes of a refused body that are read to keep its connection.
const MAX_DISCARDED_BYTES: usize = 64 * 1024;

/// The reason why a body was not read to its end.
#[derive(Debug)]
pub(super) enum BodyError {
    /// Larger than allowed: 413.
    TooLarge,
    /// The client stopped sending: 408.
    TooSlow,
    /// The connection broke, or the chunks are not valid HTTP: 400.
    Broken,
}

/// Reads a body of at most `limits.max_body_bytes` bytes. Refuses a larger declared length before reading
/// anything.
pub(super) async fn read<B>(body: B, limits: &Limits) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    // In addition to the timeout between two chunks, which a byte now and then would reset.
    with_timeout(limits.body_timeout, pin!(read_all(body, limits)))
        .await
        .unwrap_or(Err(BodyError::TooSlow))
}

/// Returns true if the end of a body has arrived. Discards the part that has arrived, without waiting for
/// more. Returns false for a body that waits for `100 Continue`, and for a chunked one, because a proxy may
/// see another end.
pub(super) fn has_arrived<B>(body: &mut B, headers: &HeaderMap) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
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

/// Applies a timeout. Sets no timer if `work` is ready at once: most bodies arrive with their head.
async fn with_timeout<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, BodyError> {
    // The timeout polls `work` again, which registers the waker.
    match work.as_mut().now_or_never() {
        Some(done) => Ok(done),
        None => tokio::time::timeout(limit, work)
            .await
            .map_err(|_| BodyError::TooSlow),
    }
}

async fn read_all<B>(mut body: B, limits: &Limits) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limits.max_body_bytes as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = with_timeout(limits.body_idle_timeout, pin!(body.frame())).await? {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limits.max_body_bytes {
            return Err(BodyError::TooLarge);
        }
        // A small body is one chunk and needs no copy.
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        if whole.is_empty() {
            // Reserves the announced length at once: growing by doubling takes three times the body. Memory
            // that is never written never becomes resident.
            whole.reserve(data.len() + body.size_hint().lower() as usize);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
