//! HTTPS with a private CA, by this client and by `reqwest`.

use std::sync::Arc;

use mcp_client::{Client, Endpoint, Error, tls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// For `localhost` and 127.0.0.1, until 2126; made with OpenSSL for tests only. The tests of the gateway's
/// event log in PostgreSQL use it too.
const CA: &[u8] = include_bytes!("tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key.pem");

/// A server with the certificate of the private CA.
pub(crate) async fn serve_private() -> String {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    serve(config).await
}

/// Answers every request with the result 1, and closes.
pub(crate) async fn serve(config: ServerConfig) -> String {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // A client that does not trust us hangs up here.
            let Ok(mut socket) = acceptor.accept(socket).await else {
                continue;
            };
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).await;
            let body = r#"{"jsonrpc":"2.0","id":1,"result":1}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let reply = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            let _ = socket.write_all(reply.as_bytes()).await;
            let _ = socket.shutdown().await;
        }
    });
    url
}

pub(crate) fn private_ca() -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(CA).unwrap();
    roots.add(ca).unwrap();
    tls::config_with_roots(roots).unwrap()
}

#[tokio::test]
async fn configured_private_ca_is_trusted() {
    let endpoint = Endpoint::new(&serve_private().await)
        .unwrap()
        .tls(private_ca());
    let client = Client::http(endpoint).unwrap();
    assert_eq!(client.request("m", &()).await.unwrap().get(), "1");
}

#[tokio::test]
async fn other_certificates_are_not_trusted() {
    let client = Client::http(Endpoint::new(&serve_private().await).unwrap()).unwrap();
    let error = client.request("m", &()).await.unwrap_err();
    assert_error!(error, Error::Unreachable { .. });
}

#[tokio::test]
async fn reqwest_accepts_the_same_configuration() {
    let url = serve_private().await;
    let client = |tls| {
        reqwest::Client::builder()
            .no_proxy()
            .tls_backend_preconfigured(tls)
            .build()
    };
    let trusting = client(private_ca()).unwrap();
    let response = trusting.post(&url).body("{}").send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(text.contains(r#""result":1"#), "{text}");
    let stranger = client(tls::config_for("https").unwrap()).unwrap();
    let error = stranger.post(&url).body("{}").send().await.unwrap_err();
    assert!(error.is_connect());
    client(tls::config_for("http").unwrap()).unwrap();
}
