//! The write buffer of a connection: collects responses while hyper works on the connection, sends them
//! together when hyper is done, and times out if the client does not read.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use super::socket::Output;

/// Limit of the collected bytes.
const MAX_BUFFERED_BYTES: usize = 16 * 1024;
/// A larger write goes straight to the socket: its copy would cost more than a system call of its own. Also the bytes of
/// memory that the buffer of an idle connection may keep.
const MAX_COPIED_BYTES: usize = 2 * 1024;

/// The write half of a connection. Responses to pipelined requests leave together: a system call for
/// each would cost more than the responses.
pub(super) struct WriteBuffer {
    stream: Output,
    buffered: Vec<u8>,
    /// The number of buffered bytes that were sent.
    sent: usize,
    /// Timeout of a write while the client reads nothing.
    timeout: Duration,
    /// Runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WriteBuffer {
    pub(super) fn new(stream: Output, timeout: Duration) -> Self {
        Self {
            stream,
            buffered: Vec::new(),
            sent: 0,
            timeout,
            stalled: None,
        }
    }

    /// Buffers bytes, or writes them if they are many. Sends the buffered ones first if there would be too many.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = slices.iter().map(|slice| slice.len()).sum();
        let is_large = size > MAX_COPIED_BYTES;
        if is_large || self.buffered.len() + size > MAX_BUFFERED_BYTES {
            ready!(self.poll_send(cx))?;
        }
        if is_large {
            let written = self.stream.poll_write_vectored(cx, slices);
            return self.watch(cx, written);
        }
        for slice in slices {
            self.buffered.extend_from_slice(slice);
        }
        Poll::Ready(Ok(size))
    }

    /// Sends the buffered bytes.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.buffered.len() {
            let rest = &self.buffered[self.sent..];
            let written = self.stream.poll_write(cx, rest);
            match ready!(self.watch(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        // Without TLS this is no progress, and the timeout of a large write that waits goes on.
        if let Some(flushed) = self.stream.poll_flush(cx) {
            ready!(self.watch(cx, flushed))?;
        }
        self.sent = 0;
        self.buffered.clear();
        if self.buffered.capacity() > MAX_COPIED_BYTES {
            self.buffered = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the buffered bytes and closes the write half.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        self.stream.poll_shutdown(cx)
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stalled.is_some()
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}
