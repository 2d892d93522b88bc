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
const MAX_DISCARDED: usize = 64 * 1024;

/// The reason why a body was not read to its end.
#[derive(Debug)]
pub(super) enum BodyError {
    /// Larger than allowed: 413.
    TooLarge,
    /// Nothing more came: 408.
    TooSlow,
    /// The connection broke, or the chunks are not valid HTTP: 400.
    Broken,
}

/// Reads a body of at most `limits.body` bytes; a larger declared length is refused before anything is
/// read.
pub(super) async fn read<B>(body: B, limits: &Limits) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    // Beside the timeout between two pieces: a byte now and then is no progress.
    within(limits.body_whole, pin!(whole(body, limits)))
        .await
        .unwrap_or(Err(BodyError::TooSlow))
}

/// Returns true if a body has arrived to its end. Discards what is there of it, without waiting for more.
/// Of a body that waits for `100 Continue` nothing is there, and the end of one in chunks is not relied on:
/// a proxy may see another.
pub(super) fn has_arrived<B>(body: &mut B, headers: &HeaderMap) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    if headers.contains_key(EXPECT) || headers.contains_key(TRANSFER_ENCODING) {
        return false;
    }
    let mut discarded = 0;
    while !body.is_end_stream() && discarded <= MAX_DISCARDED {
        match body.frame().now_or_never() {
            Some(Some(Ok(frame))) => discarded += frame.data_ref().map_or(0, Bytes::len),
            Some(None) => return true,
            Some(Some(Err(_))) | None => return false,
        }
    }
    body.is_end_stream()
}

/// A timeout that costs nothing where nothing has to be waited for: most bodies come with their head.
async fn within<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, BodyError> {
    // Waiting for it polls it again, which registers the waker.
    match work.as_mut().now_or_never() {
        Some(done) => Ok(done),
        None => tokio::time::timeout(limit, work)
            .await
            .map_err(|_| BodyError::TooSlow),
    }
}

async fn whole<B>(mut body: B, limits: &Limits) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limits.body as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = within(limits.body_idle, pin!(body.frame())).await? {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limits.body {
            return Err(BodyError::TooLarge);
        }
        // A small body is one piece and needs no copy.
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        if whole.is_empty() {
            // Room for all that is announced, at once: to grow by doubling takes three times the body.
            // What never comes never becomes resident.
            whole.reserve(data.len() + body.size_hint().lower() as usize);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
