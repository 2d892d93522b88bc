//! Streams without an end in sight: on them a client only listens.
//!
//! hyper keeps room for requests to come, which is most of what such a connection would cost. So it
//! is taken out of hyper's hands for its last response.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, Response, Version};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::reply::Reply;
use super::stall::{Sending, Stall};
use super::stream::EventStream;

/// Read at once of what a client sends that only listens.
const SCRAP: usize = 256;

/// What the service fails with in hyper's eyes: a response that hyper does not send.
pub(super) struct Parting(Mutex<Option<Lasting>>);

/// The last response on its connection.
pub(super) struct Lasting {
    headers: HeaderMap,
    events: Box<EventStream>,
}

impl Parting {
    /// Leaves to hyper what comes to an end, and what a client of HTTP/1.0 gets: it knows no chunks.
    pub(super) fn check(
        response: Response<Reply>,
        version: Version,
    ) -> Result<Response<Reply>, Self> {
        if version != Version::HTTP_11 || !matches!(response.body(), Reply::Lasting(_)) {
            return Ok(response);
        }
        let (head, reply) = response.into_parts();
        match reply {
            Reply::Lasting(events) => Err(Self(Mutex::new(Some(Lasting {
                headers: head.headers,
                events,
            })))),
            reply => Ok(Response::from_parts(head, reply)),
        }
    }

    /// The response, if this is how hyper ended.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Lasting> {
        let Self(response) = error.source()?.downcast_ref()?;
        response
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl fmt::Debug for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parting").finish_non_exhaustive()
    }
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is a stream from now on")
    }
}

impl Error for Parting {}

impl Lasting {
    /// Sends the head and then the events, until they end or the client goes away.
    pub(super) async fn send(mut self, mut stream: Stall, sending: Sending) -> io::Result<()> {
        if sending.is_stuck() {
            // Part of the answer before may still have been hyper's.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut piece = self.head();
        let mut is_over = false;
        poll_fn(|cx| {
            loop {
                if has_left(&mut stream, cx)? {
                    return Poll::Ready(Ok(()));
                }
                while piece.has_remaining() {
                    let written = ready!(Pin::new(&mut stream).poll_write(cx, &piece))?;
                    piece.advance(written);
                }
                if is_over {
                    return Pin::new(&mut stream).poll_shutdown(cx);
                }
                match self.events.poll_event(cx) {
                    Poll::Ready(Some(event)) => piece = chunk(&event),
                    Poll::Ready(None) => {
                        piece = Bytes::from_static(b"0\r\n\r\n");
                        is_over = true;
                    }
                    Poll::Pending => {
                        ready!(sending.poll_send(cx))?;
                        return Poll::Pending;
                    }
                }
            }
        })
        .await
    }

    fn head(&mut self) -> Bytes {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        for (name, value) in &std::mem::take(&mut self.headers) {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        let date = httpdate::HttpDate::from(SystemTime::now());
        let rest =
            format!("transfer-encoding: chunked\r\nconnection: close\r\ndate: {date}\r\n\r\n");
        head.extend_from_slice(rest.as_bytes());
        head.into()
    }
}

fn chunk(event: &[u8]) -> Bytes {
    let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
    chunk.extend_from_slice(event);
    chunk.extend_from_slice(b"\r\n");
    chunk.into()
}

/// Whether the client has gone; what it says while it listens is for nobody.
fn has_left(stream: &mut Stall, cx: &mut Context<'_>) -> io::Result<bool> {
    let mut scrap = [0; SCRAP];
    loop {
        let mut buffer = ReadBuf::new(&mut scrap);
        match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Ok(true),
            Poll::Ready(Ok(())) => {}
        }
    }
}
