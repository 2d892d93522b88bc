//! The socket of a connection, with or without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::server::TlsStream;

/// A socket. Without TLS its halves take no lock.
pub(in crate::http) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The read half.
pub(super) enum Input {
    Plain(OwnedReadHalf),
    Tls(ReadHalf<Box<TlsStream<TcpStream>>>),
}

/// The write half.
pub(super) enum Output {
    Plain(OwnedWriteHalf),
    Tls(WriteHalf<Box<TlsStream<TcpStream>>>),
}

impl Socket {
    pub(super) fn into_split(self) -> (Input, Output) {
        match self {
            Self::Plain(stream) => {
                let (input, output) = stream.into_split();
                (Input::Plain(input), Output::Plain(output))
            }
            Self::Tls(stream) => {
                let (input, output) = tokio::io::split(stream);
                (Input::Tls(input), Output::Tls(output))
            }
        }
    }
}

impl Input {
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Output {
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub(super) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    /// Sends what TLS has encrypted; `None` without TLS, where nothing waits to be flushed.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(Pin::new(stream).poll_flush(cx)),
        }
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
