//! Reads a request body: bounded in size and in patience.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use super::Limits;

/// Why a body was not read to its end.
#[derive(Debug)]
pub(super) enum Refused {
    /// Larger than allowed: 413.
    TooLarge,
    /// Nothing more came: 408.
    TooSlow,
    /// The connection broke, or the pieces are none of HTTP: 400, if anybody reads it.
    Broken,
}

/// Reads at most what `limits` allow; a declared length above that is refused before anything is
/// read.
pub(super) async fn read(body: Incoming, limits: &Limits) -> Result<Bytes, Refused> {
    // Beside the pause between two pieces: a byte now and then is no progress.
    within(limits.body_whole, pin!(whole(body, limits)))
        .await
        .unwrap_or(Err(Refused::TooSlow))
}

/// A timeout that costs nothing where there is nothing to wait for: most bodies come with their head.
async fn within<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Refused> {
    // Waiting for it polls it again, and with that registers who waits.
    match work.as_mut().now_or_never() {
        Some(done) => Ok(done),
        None => tokio::time::timeout(limit, work)
            .await
            .map_err(|_| Refused::TooSlow),
    }
}

async fn whole(mut body: Incoming, limits: &Limits) -> Result<Bytes, Refused> {
    if body.size_hint().lower() > limits.body as u64 {
        return Err(Refused::TooLarge);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = within(limits.body_idle, pin!(body.frame())).await? {
        let Ok(data) = frame.map_err(|_| Refused::Broken)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limits.body {
            return Err(Refused::TooLarge);
        }
        // A small body is one piece and needs no copy.
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
