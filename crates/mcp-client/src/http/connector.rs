//! Opens connections to one server: directly or through a proxy, with or without TLS.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service as _;

use crate::Error;
use crate::proxy::{Proxy, UsedProxy};
use crate::tls::{self, FollowedFiles, TlsFiles};
use crate::unreachable::ProxyError;

/// Timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of TCP keepalive probes on a silent connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

type BoxError = Box<dyn StdError + Send + Sync>;
pub(super) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// The TLS configuration of an endpoint.
#[derive(Clone, Default)]
pub(super) enum TlsSource {
    /// The root certificates of this machine.
    #[default]
    Native,
    Config(Arc<ClientConfig>),
    Files(TlsFiles),
}

/// Opens connections to one server.
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Tls,
    proxy: Option<UsedProxy>,
    /// The server; only scheme and authority are used.
    server: Uri,
}

enum Tls {
    Fixed(Arc<ClientConfig>),
    Followed(Arc<FollowedFiles>),
}

impl Connector {
    pub(super) fn new(server: Uri, tls: TlsSource, proxy: &Proxy) -> Result<Self, Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // Without keepalive a silent stream would not notice that its server is gone.
        tcp.set_keepalive(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        let tls = match tls {
            TlsSource::Files(files) if server.scheme() == Some(&Scheme::HTTPS) => {
                Tls::Followed(Arc::new(FollowedFiles::new(files)))
            }
            TlsSource::Config(config) => Tls::Fixed(config),
            TlsSource::Native | TlsSource::Files(_) => {
                let config = tls::config_for(server.scheme_str().unwrap_or_default())?;
                Tls::Fixed(Arc::new(config))
            }
        };
        Ok(Self {
            tcp,
            tls,
            proxy: proxy.to(&server)?,
            server,
        })
    }

    /// The proxy that reads the requests itself: one for `http`. A connection of `https` passes through it.
    pub(super) fn reading_proxy(&self) -> Option<&UsedProxy> {
        let reads = self.server.scheme() == Some(&Scheme::HTTP);
        self.proxy.as_ref().filter(|_| reads)
    }

    pub(super) async fn connect(&self) -> Result<Stream, BoxError> {
        let (tcp, server) = (self.tcp.clone(), self.server.clone());
        let Some(proxy) = &self.proxy else {
            let tls = self.tls().await?;
            return HttpsConnector::from((tcp, tls)).call(server).await;
        };
        let connected = if self.reading_proxy().is_some() {
            let stream = tcp.clone().call(proxy.url.clone()).await;
            stream.map(MaybeHttpsStream::Http).map_err(BoxError::from)
        } else {
            let mut tunnel = Tunnel::new(proxy.url.clone(), tcp);
            if let Some(authorization) = &proxy.authorization {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            let tls = self.tls().await?;
            HttpsConnector::from((tunnel, tls)).call(server).await
        };
        connected.map_err(|source| {
            let proxy = proxy.url.authority().map_or("", |name| name.as_str());
            let proxy = format!("through the proxy {proxy}");
            Box::new(ProxyError { proxy, source }) as BoxError
        })
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>, BoxError> {
        match &self.tls {
            Tls::Fixed(config) => Ok(Arc::clone(config)),
            Tls::Followed(files) => {
                let files = Arc::clone(files);
                let config = tokio::task::spawn_blocking(move || files.config()).await?;
                Ok(config?)
            }
        }
    }
}
