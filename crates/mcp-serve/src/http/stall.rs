//! The stream under a connection: gives up on a peer that does not read, and ends so that a peer
//! that is still writing can read the last answer.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::Sleep;

use super::out::Out;

/// A stream whose writes fail once the peer has taken nothing for a while.
pub(super) struct Stall {
    stream: OwnedReadHalf,
    out: Sending,
    end: End,
}

/// The writing half, for whoever works on the connection: what is written goes out when that has
/// been done for now. Never waited for: one task uses both.
#[derive(Clone)]
pub(super) struct Sending(Arc<Mutex<Out>>);

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
    /// A stream that gives its peer `patience`, and what sends what is written to it.
    pub(super) fn new(stream: TcpStream, patience: Duration) -> (Self, Sending) {
        let (stream, out) = stream.into_split();
        let out = Sending(Arc::new(Mutex::new(Out::new(out, patience))));
        let stall = Self {
            stream,
            out: out.clone(),
            end: End::NotYet,
        };
        (stall, out)
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
}

impl Sending {
    /// Sends what was written.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.out().poll_send(cx)
    }

    /// Whether the client takes nothing at the moment.
    pub(super) fn is_stuck(&self) -> bool {
        self.out().is_stuck()
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.out.out().poll_write(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.out.out().poll_write(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is held back for long: see [`Sending`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.end, End::NotYet) {
            ready!(self.out.out().poll_shutdown(cx))?;
            self.end = End::Said;
        }
        self.linger(cx).map(Ok)
    }
}
