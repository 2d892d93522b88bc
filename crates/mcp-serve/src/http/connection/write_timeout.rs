//! A socket whose writes time out while the client does not read, and which closes so that a
//! client that is still sending can read the last response.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::socket::{Input, Socket};
use super::write_buffer::WriteBuffer;

/// A socket with a write timeout.
pub(in crate::http) struct WriteTimeout {
    stream: Input,
    writer: Writer,
    closing: Closing,
    linger: Duration,
}

/// The write half. Flushed when the task of the connection yields. Only that task takes the lock.
#[derive(Clone)]
pub(in crate::http) struct Writer {
    buffer: Arc<Mutex<WriteBuffer>>,
    /// True after the refusal of a request whose body has not arrived.
    is_client_sending: Arc<AtomicBool>,
}

/// The state of closing. Closing a socket with unread bytes resets the connection, and the reset discards
/// the response that gives the reason: 413, 431. So the input of a refused client is read and discarded,
/// up to a limit.
enum Closing {
    Open,
    /// Our side is closed; the client may still be sending.
    Shutdown,
    /// The client is still sending.
    Lingering {
        until: Pin<Box<Sleep>>,
        left: usize,
    },
}

/// Limits of the time and of the bytes that a client may send after our end is closed.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_LINGER_BYTES: usize = 64 * 1024 * 1024;

impl WriteTimeout {
    /// Wraps `stream`: writes fail once the client has read nothing for `timeout`, and a refused client may go on
    /// sending for `linger` at most. Returns the writer that flushes it, too.
    pub(in crate::http) fn new(
        stream: Socket,
        timeout: Duration,
        linger: Duration,
    ) -> (Self, Writer) {
        let (stream, out) = stream.into_split();
        let writer = Writer {
            buffer: Arc::new(Mutex::new(WriteBuffer::new(out, timeout))),
            is_client_sending: Arc::default(),
        };
        let stream = Self {
            stream,
            writer: writer.clone(),
            closing: Closing::Open,
            linger: linger.min(LINGER_TIMEOUT),
        };
        (stream, writer)
    }

    fn lingering(&self) -> Closing {
        Closing::Lingering {
            until: Box::pin(tokio::time::sleep(self.linger)),
            left: MAX_LINGER_BYTES,
        }
    }

    /// Discards the input of the client. Completes at once if there is no input, unless the client is known to be
    /// sending.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut discarded = [0; 8 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut discarded);
            let read = self.stream.poll_read(cx, &mut buffer);
            let count = buffer.filled().len();
            match (&mut self.closing, read) {
                (Closing::Lingering { until, .. }, Poll::Pending) => {
                    return until.as_mut().poll(cx);
                }
                (_, Poll::Pending | Poll::Ready(Err(_))) => return Poll::Ready(()),
                _ if count == 0 => return Poll::Ready(()),
                (Closing::Lingering { left, .. }, _) if *left < count => return Poll::Ready(()),
                (Closing::Lingering { left, .. }, _) => *left -= count,
                (Closing::Open | Closing::Shutdown, _) => self.closing = self.lingering(),
            }
        }
    }
}

impl Writer {
    /// Notes that the last request was refused before its body arrived: the client may send it before it reads.
    pub(in crate::http) fn client_is_sending(&self) {
        self.is_client_sending.store(true, Ordering::Relaxed);
    }

    /// Sends the buffered bytes.
    pub(in crate::http) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.buffer.lock().poll_send(cx)
    }

    /// Returns true while the client reads nothing.
    pub(super) fn is_stuck(&self) -> bool {
        self.buffer.lock().is_stuck()
    }
}

impl AsyncRead for WriteTimeout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeout {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer
            .buffer
            .lock()
            .poll_write(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer.buffer.lock().poll_write(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: [`Writer`] flushes when the task yields.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.closing, Closing::Open) {
            ready!(self.writer.buffer.lock().poll_shutdown(cx))?;
            self.closing = match self.writer.is_client_sending.load(Ordering::Relaxed) {
                true => self.lingering(),
                false => Closing::Shutdown,
            };
        }
        self.linger(cx).map(Ok)
    }
}
