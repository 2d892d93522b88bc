//! The body of a response that comes from another replica.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Incoming, SizeHint};

use super::stream_slots::Revocation;

/// The body, as it comes. It ends early if the replica is gone, or if the token of the client is revoked.
pub(super) struct HopBody {
    body: Incoming,
    gone: BoxFuture<'static, ()>,
    revocation: Revocation,
    has_ended: bool,
}

impl HopBody {
    pub(super) fn new(
        body: Incoming,
        gone: BoxFuture<'static, ()>,
        revocation: Revocation,
    ) -> Self {
        Self {
            body,
            gone,
            revocation,
            has_ended: false,
        }
    }

    /// The next part of the body.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while !self.has_ended {
            if self.revocation.poll(cx) {
                break;
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(data)),
                    Err(_) => continue,
                },
                Poll::Ready(Some(Err(_)) | None) => break,
                Poll::Pending if self.gone.as_mut().poll(cx).is_ready() => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        self.has_ended = true;
        Poll::Ready(None)
    }

    pub(super) fn is_over(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
