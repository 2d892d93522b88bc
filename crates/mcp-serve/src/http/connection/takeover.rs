//! Long-lived event streams, on which a client only listens. Takes the socket from hyper for this last
//! response: hyper's buffers for further requests are most of the memory of an idle connection.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, Response, Version};
use parking_lot::Mutex;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::super::events::EventStream;
use super::super::reply::Reply;
use super::write_timeout::{WriteTimeout, Writer};

/// Bytes that are read and discarded at once of the input of a client that only listens.
const READ_CHUNK_BYTES: usize = 256;

/// The error that a service returns to hyper instead of a response, so that hyper returns the connection.
pub(in crate::http) struct Takeover(Mutex<Option<IdleStream>>);

/// The event stream that is the last response on its connection.
pub(in crate::http) struct IdleStream {
    headers: HeaderMap,
    events: Box<EventStream>,
}

impl Takeover {
    /// Takes over an idle stream. Leaves other responses to hyper, and those to clients of HTTP/1.0,
    /// which has no chunked encoding.
    pub(in crate::http) fn check(
        response: Response<Reply>,
        version: Version,
    ) -> Result<Response<Reply>, Self> {
        if version != Version::HTTP_11 || !matches!(response.body(), Reply::IdleStream(_)) {
            return Ok(response);
        }
        let (head, reply) = response.into_parts();
        let Reply::IdleStream(events) = reply else {
            return Ok(Response::from_parts(head, reply));
        };
        let headers = head.headers;
        Err(Self(Mutex::new(Some(IdleStream { headers, events }))))
    }

    /// Returns the stream if `error` is a takeover.
    pub(in crate::http) fn from_error(error: &(dyn Error + 'static)) -> Option<IdleStream> {
        let Self(response) = error.source()?.downcast_ref()?;
        response.lock().take()
    }
}

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Takeover").finish_non_exhaustive()
    }
}

impl fmt::Display for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is a stream from now on")
    }
}

impl Error for Takeover {}

impl IdleStream {
    /// Sends the head and then the events, until they end or the client disconnects.
    pub(in crate::http) async fn send(
        mut self,
        mut stream: WriteTimeout,
        writer: Writer,
    ) -> io::Result<()> {
        if writer.is_stuck() {
            // Part of the previous response may still be in hyper's buffer.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut piece = self.head();
        let mut is_over = false;
        poll_fn(|cx| {
            loop {
                if is_disconnected(&mut stream, cx)? {
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
                        ready!(writer.poll_send(cx))?;
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

/// Returns true once the client closed the connection; its input is discarded.
fn is_disconnected(stream: &mut WriteTimeout, cx: &mut Context<'_>) -> io::Result<bool> {
    let mut chunk = [0; READ_CHUNK_BYTES];
    loop {
        let mut buffer = ReadBuf::new(&mut chunk);
        match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Ok(true),
            Poll::Ready(Ok(())) => {}
        }
    }
}
