//! Reads a request body: bounded in size and in patience.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

/// Why a body was not read to its end.
#[derive(Debug)]
pub(super) enum Refused {
    /// Larger than allowed: 413.
    TooLarge,
    /// Nothing more came: 408.
    TooSlow,
    /// The connection broke; nobody will read an answer.
    Broken,
}

/// Reads at most `limit` bytes; a declared length above it is refused before anything is read.
pub(super) async fn read(
    mut body: Incoming,
    limit: usize,
    idle: Duration,
) -> Result<Bytes, Refused> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Refused::TooLarge);
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = tokio::time::timeout(idle, body.frame())
        .await
        .map_err(|_| Refused::TooSlow)?
    {
        let Ok(data) = frame.map_err(|_| Refused::Broken)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limit {
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
