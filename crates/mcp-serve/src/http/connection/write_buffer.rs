//! The write buffer of a connection: gathers responses while hyper works on the connection, sends them
//! together when it rests, and times out where the client does not read.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite as _;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::Sleep;

/// Bytes that are gathered at most; a larger write goes straight to the socket.
const MAX_GATHERED: usize = 16 * 1024;
/// Capacity of a buffer that an idle connection may keep, in bytes.
const MAX_IDLE_CAPACITY: usize = 2 * 1024;

/// The write half of a connection. Responses to pipelined requests leave together: a system call for
/// each would cost more than the responses.
pub(super) struct WriteBuffer {
    stream: OwnedWriteHalf,
    gathered: Vec<u8>,
    /// Bytes of it that were sent.
    sent: usize,
    /// Timeout of a write while the client reads nothing.
    timeout: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl WriteBuffer {
    pub(super) fn new(stream: OwnedWriteHalf, timeout: Duration) -> Self {
        Self {
            stream,
            gathered: Vec::new(),
            sent: 0,
            timeout,
            waiting: None,
        }
    }

    /// Takes bytes, and sends the gathered ones first where it becomes too many.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = slices.iter().map(|slice| slice.len()).sum();
        if self.gathered.len() + size > MAX_GATHERED {
            ready!(self.poll_send(cx))?;
        }
        if size > MAX_GATHERED {
            let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
            return self.watch(cx, written);
        }
        for slice in slices {
            self.gathered.extend_from_slice(slice);
        }
        Poll::Ready(Ok(size))
    }

    /// Sends the gathered bytes.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let rest = &self.gathered[self.sent..];
            let written = Pin::new(&mut self.stream).poll_write(cx, rest);
            match ready!(self.watch(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.sent = 0;
        self.gathered.clear();
        if self.gathered.capacity() > MAX_IDLE_CAPACITY {
            self.gathered = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the gathered bytes and closes the write half.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.waiting.is_some()
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
        let timeout = self.timeout;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}
