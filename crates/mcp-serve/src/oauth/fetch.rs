//! Reads a JSON document of an authorization server: without redirects, bounded in size and time.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Larger than any set of keys.
const MAX_BYTES: usize = 256 * 1024;

/// Checks that a URL is `https`, or `http` on this machine.
pub(super) fn check_url(url: &str) -> anyhow::Result<Uri> {
    let uri: Uri = url.parse().context("is not a URL")?;
    let host = uri.host().context("is not a URL with a host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_local => {}
        _ => bail!("must be https, or http on this machine"),
    }
    ensure!(
        !url.contains(['#', '"', '\\', ' ']),
        "has a fragment or a quote"
    );
    Ok(uri)
}

/// Gets a document.
pub(super) async fn json<T: DeserializeOwned>(url: &str) -> anyhow::Result<T> {
    let uri = check_url(url)?;
    let got = tokio::time::timeout(TIMEOUT, get(&uri)).await;
    let body = got.context("no answer within 10 s")??;
    serde_json::from_slice(&body).context("the answer is not the JSON that was expected")
}

async fn get(uri: &Uri) -> anyhow::Result<Bytes> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port))
        .await
        .context("cannot connect")?;
    if !is_tls {
        return exchange(TokioIo::new(stream), uri).await;
    }
    let name = ServerName::try_from(host.to_owned()).context("the host is not a name")?;
    let config = TLS.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let connector = TlsConnector::from(Arc::clone(config));
    let stream = connector.connect(name, stream).await.context("no TLS")?;
    exchange(TokioIo::new(stream), uri).await
}

async fn exchange<S>(stream: S, uri: &Uri) -> anyhow::Result<Bytes>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(stream).await?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let request = Request::get(path).header(HOST, authority);
        let request = request
            .header(ACCEPT, "application/json")
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        // A redirect, too: the operator has named the address.
        let status = response.status();
        ensure!(status == StatusCode::OK, "the answer has status {status}");
        let body = Limited::new(response.into_body(), MAX_BYTES)
            .collect()
            .await;
        let body = body.map_err(|error| anyhow::anyhow!("the answer cannot be read: {error}"))?;
        Ok(body.to_bytes())
    };
    let answer = answer.await;
    driver.abort();
    answer
}

/// The root certificates of this machine, or those of `SSL_CERT_FILE`. Read at the first use.
static TLS: LazyLock<Result<Arc<ClientConfig>, rustls::Error>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
});
