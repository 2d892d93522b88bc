//! HTTPS with a private CA, CAs and client certificates from files, and what is said when they do not fit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_client::tls::TlsFiles;
use mcp_client::{Endpoint, Error};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::server::{Server, builder, request_to, result};

/// A server with a certificate of the private CA.
pub(crate) async fn serve_private() -> Server {
    start("mutual-server", false).await
}

pub(crate) fn private_ca() -> TlsFiles {
    files(Some("mutual-ca"), None)
}

/// A file of `tests/it/tls`: of one CA, made with OpenSSL for tests only; all with the key `leaf.key.pem`.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls");
    folder.join(format!("{name}.pem"))
}

/// A server that answers every request with the result 1.
async fn start(certificate: &str, asks_for_certificate: bool) -> Server {
    let certificate = CertificateDer::from_pem_file(file(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("leaf.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(file("mutual-ca")).unwrap();
    roots.add(ca).unwrap();
    let (roots, of_verifier) = (Arc::new(roots), Arc::clone(&provider));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, of_verifier);
    let verifier = match asks_for_certificate {
        true => verifier,
        false => verifier.allow_unauthenticated(),
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap());
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    Server::with_tls(Some(tls), |request| result(request, "1")).await
}

fn files(ca: Option<&str>, client: Option<&str>) -> TlsFiles {
    let client = client.map(|name| (file(name), file("leaf.key")));
    TlsFiles {
        ca: ca.map(file),
        client,
    }
}

async fn request(url: &str, files: TlsFiles) -> Result<String, Error> {
    request_to(Endpoint::new(url)?.tls_files(files)).await
}

#[tokio::test]
async fn server_of_a_private_ca_gets_the_client_certificate() {
    let server = start("mutual-server", true).await;
    let with_both = files(Some("mutual-ca"), Some("mutual-client"));
    assert_eq!(request(&server.url, with_both).await.unwrap(), "1");
}

#[tokio::test]
async fn error_says_what_to_do() {
    let (own, ca) = ("mutual-server", private_ca);
    let expired = files(Some("mutual-ca"), Some("expired"));
    for (certificate, asks, files, said) in [
        (own, false, files(None, None), "set `ca`"),
        (own, false, files(Some("ca"), None), "set `ca`"),
        ("expired", false, ca(), "has expired"),
        ("other-name", false, ca(), "another host name"),
        (own, true, ca(), "set `client_cert`"),
        (own, true, expired, "refused the client certificate"),
    ] {
        let server = start(certificate, asks).await;
        let error = request(&server.url, files).await.unwrap_err();
        assert_error!(&error, Error::Unreachable { .. });
        let text = error.to_string();
        assert!(text.contains(said), "{certificate} {asks}: {text}");
    }
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", plain.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = plain.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        socket.write_all(answer).await.unwrap();
    });
    let refused = request(&url, files(None, None)).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("does not speak TLS"), "{text}");
}

#[tokio::test]
async fn renewed_files_are_used_by_the_next_connection() {
    let server = start("mutual-server", true).await;
    let name = format!("mcp-client-tls-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let place = |from: &str, to: &str| {
        std::fs::copy(file(from), folder.join(to)).unwrap();
        folder.join(to)
    };
    let files = TlsFiles {
        ca: Some(place("ca", "ca")),
        client: Some((place("expired", "cert"), place("leaf.key", "key"))),
    };
    let client = builder().http(server.endpoint().tls_files(files)).unwrap();
    let said = async || client.request("m", &()).await.unwrap_err().to_string();
    assert!(said().await.contains("not trusted here"));
    place("mutual-ca", "ca");
    assert!(said().await.contains("refused the client certificate"));
    place("mutual-client", "cert");
    client.request("m", &()).await.unwrap();
    std::fs::write(folder.join("cert"), "no certificate").unwrap();
    let text = said().await;
    assert!(
        text.contains("client_cert: ") && text.contains("has no certificate in PEM"),
        "{text}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn unusable_file_is_named_with_its_field() {
    let (ca, leaf, key) = (file("mutual-ca"), file("mutual-client"), file("leaf.key"));
    let (nowhere, other) = (file("nowhere"), file("server.key"));
    let missing = "nowhere.pem cannot be read: entity not found";
    let with_client = |cert: &PathBuf, key: &PathBuf| TlsFiles {
        ca: None,
        client: Some((cert.clone(), key.clone())),
    };
    let with_ca = |ca: &PathBuf| TlsFiles {
        ca: Some(ca.clone()),
        client: None,
    };
    for (files, field, said) in [
        (with_ca(&nowhere), "ca", missing),
        (with_ca(&key), "ca", "has no certificate"),
        (with_client(&key, &key), "client_cert", "has no certificate"),
        (with_client(&leaf, &ca), "client_key", "has no private key"),
        (
            with_client(&leaf, &other),
            "client_key",
            "is not the key of",
        ),
    ] {
        let error = files.load().err().unwrap();
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains(said), "{error}");
    }
    with_client(&leaf, &key).load().unwrap();
}
