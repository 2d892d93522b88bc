//! What goes out on a connection: gathered while the connection is worked on, sent when it rests,
//! and given up where the peer does not read.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite as _;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::Sleep;

/// So much is gathered at most, and nothing that is as large by itself.
const GATHER: usize = 16 * 1024;
/// A larger buffer is not kept for a connection that may be idle from now on.
const KEEP: usize = 2 * 1024;

/// The writing half of a connection. Answers to requests that came together leave together: a system
/// call each would cost more than the answers.
pub(super) struct Out {
    stream: OwnedWriteHalf,
    gathered: Vec<u8>,
    /// How much of it is sent.
    sent: usize,
    /// How long the peer may take nothing.
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Out {
    pub(super) fn new(stream: OwnedWriteHalf, patience: Duration) -> Self {
        Self {
            stream,
            gathered: Vec::new(),
            sent: 0,
            patience,
            waiting: None,
        }
    }

    /// Takes bytes, and sends what was gathered before where it becomes too much.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = slices.iter().map(|slice| slice.len()).sum();
        if self.gathered.len() + size > GATHER {
            ready!(self.poll_send(cx))?;
        }
        if size > GATHER {
            let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
            return self.watch(cx, written);
        }
        for slice in slices {
            self.gathered.extend_from_slice(slice);
        }
        Poll::Ready(Ok(size))
    }

    /// Sends what was gathered.
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
        if self.gathered.capacity() > KEEP {
            self.gathered = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what was gathered and says that there will be no more.
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
