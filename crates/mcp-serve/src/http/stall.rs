//! The stream under a connection: gives up on a peer that does not read, and ends so that a peer
//! that is still writing can read the last answer.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A stream whose writes fail once the peer has taken nothing for `patience`.
pub(super) struct Stall {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    end: End,
}

/// Closing a socket with unread bytes resets the connection, and a reset takes the answer with it
/// that said why: 413, 431. So what a refused client still sends is read and dropped, for a while.
enum End {
    NotYet,
    /// We have said all; the peer may be talking still.
    Said,
    /// It was.
    Lingering {
        until: Pin<Box<Sleep>>,
        left: usize,
    },
}

/// How long a peer may go on after our end, and how many bytes.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 16 * 1024 * 1024;

impl Stall {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waiting: None,
            end: End::NotYet,
        }
    }

    /// Drops what the peer has sent; done at once if that is nothing.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scrap = [0; 8 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scrap);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let dropped = buffer.filled().len();
            match (&mut self.end, read) {
                (End::Lingering { until, .. }, Poll::Pending) => return until.as_mut().poll(cx),
                (_, Poll::Pending | Poll::Ready(Err(_))) => return Poll::Ready(()),
                _ if dropped == 0 => return Poll::Ready(()),
                (End::Lingering { left, .. }, _) if *left < dropped => return Poll::Ready(()),
                (End::Lingering { left, .. }, _) => *left -= dropped,
                (End::NotYet | End::Said, _) => {
                    let until = Box::pin(tokio::time::sleep(LINGER));
                    let left = LINGER_BYTES;
                    self.end = End::Lingering { until, left };
                }
            }
        }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl AsyncRead for Stall {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stall {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.end, End::NotYet) {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.end = End::Said;
        }
        self.linger(cx).map(Ok)
    }
}
