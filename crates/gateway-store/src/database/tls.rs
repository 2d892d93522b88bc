//! TLS towards PostgreSQL, with the configuration of the workspace.
//!
//! Without channel binding: the hash that it needs depends on the signature of the certificate, and reading that
//! would add seven crates. The certificate is verified, so the server is the one that the address names.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// Makes the TLS side of each new connection.
#[derive(Clone)]
pub(super) struct PostgresTls(pub(super) TlsConnector);

/// The TLS side of a new connection to one host.
pub(super) struct HostTls {
    connector: TlsConnector,
    host: String,
}

/// An encrypted connection.
pub(super) struct EncryptedStream<S>(TlsStream<S>);

impl<S: Socket> MakeTlsConnect<S> for PostgresTls {
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostTls;
    type Error = Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<HostTls> {
        let (connector, host) = (self.0.clone(), host.to_owned());
        Ok(HostTls { connector, host })
    }
}

impl<S: Socket> TlsConnect<S> for HostTls {
    type Stream = EncryptedStream<S>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let invalid = |error| Error::new(ErrorKind::InvalidInput, error);
            let host = ServerName::try_from(self.host).map_err(invalid)?;
            let encrypted = self.connector.connect(host, stream).await?;
            Ok(EncryptedStream(encrypted))
        })
    }
}

/// The socket below.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket for S {}

impl<S: Socket> tokio_postgres::tls::TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: Socket> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: Socket> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
