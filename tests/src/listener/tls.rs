//! The listener with TLS: certificates that are renewed, clients that need one, and slow handshakes.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_client::tls::TlsFiles;
use mcp_client::{Client, ClientInfo, Endpoint, EraChoice};
use mcp_serve::Tls;
use serde_json::json;
use tokio::net::TcpStream;

use super::TestListener;
use crate::harness::{Folder, client_builder, wait_until};

/// A certificate that the tests of `mcp-client` use.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mcp-client/tests/it/tls");
    folder.join(name)
}

fn server(client_ca: Option<&str>) -> Tls {
    let (certificate, key) = (file("mutual-server.pem"), file("leaf.key.pem"));
    Tls::read(certificate, key, client_ca.map(file)).unwrap()
}

fn client(url: &str, ca: &str, with_certificate: bool) -> Client {
    let client = with_certificate.then(|| (file("mutual-client.pem"), file("leaf.key.pem")));
    let ca = Some(file(ca));
    let endpoint = Endpoint::new(url).unwrap();
    let endpoint = endpoint.tls_files(TlsFiles { ca, client });
    let builder = client_builder().era(EraChoice::Legacy);
    builder.http(endpoint).unwrap()
}

async fn connect(client: &Client) -> Result<(), String> {
    let connected = client.connect(&ClientInfo::new("test", "1")).await;
    connected.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn requests_large_answers_and_streams_pass() {
    let listener = TestListener::start_with(Some(server(None)), |_| {}).await;
    let client = client(&listener.url, "mutual-ca.pem", false);
    connect(&client).await.unwrap();
    // A stream that lasts.
    let stream = client.listen(&json!({})).await.unwrap();
    let ended = tokio::spawn(stream.closed());
    for size in [1, 10_000, 1_000_000] {
        let text = "x".repeat(size);
        let call = json!({"name": "echo", "arguments": {"value": text}});
        let answer = client.request("tools/call", &call).await.unwrap();
        assert!(answer.get().len() > size, "{size}: {}", answer.get());
    }
    assert!(!ended.is_finished());
    listener.stop.cancel();
    listener.task.await.unwrap();
}

#[tokio::test]
async fn client_without_a_certificate_of_the_ca_is_refused() {
    let tls = server(Some("mutual-ca.pem"));
    let listener = TestListener::start_with(Some(tls), |_| {}).await;
    let client = |has_own| client(&listener.url, "mutual-ca.pem", has_own);
    connect(&client(true)).await.unwrap();
    let error = connect(&client(false)).await.unwrap_err();
    assert!(error.contains("set `client_cert`"), "{error}");
}

#[tokio::test]
async fn renewed_certificate_is_used_and_open_connections_stay() {
    let folder = Folder::new();
    let place = |from: &str, to: &str| {
        std::fs::copy(file(from), folder.0.join(to)).unwrap();
        folder.0.join(to)
    };
    let (certificate, key) = (place("server.pem", "cert"), place("server.key.pem", "key"));
    let tls = Tls::read(certificate, key, None).unwrap();
    let listener = TestListener::start_with(Some(tls), |_| {}).await;
    let before = client(&listener.url, "ca.pem", false);
    connect(&before).await.unwrap();
    let stream = before.listen(&json!({})).await.unwrap();
    let ended = tokio::spawn(stream.closed());
    // Half of a change: the certificate stays, since this is not its key.
    place("leaf.key.pem", "key");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let again = client(&listener.url, "ca.pem", false);
    connect(&again).await.unwrap();
    place("mutual-server.pem", "cert");
    wait_until("the new certificate", async || {
        let new = client(&listener.url, "mutual-ca.pem", false);
        connect(&new).await.is_ok()
    })
    .await;
    assert!(!ended.is_finished(), "the stream was dropped");
}

#[tokio::test]
async fn slow_handshake_takes_a_connection_and_times_out() {
    let tls = server(None);
    let listener = TestListener::start_with(Some(tls), |limits| {
        limits.max_connections = 1;
        limits.head_timeout = Duration::from_secs(2);
    })
    .await;
    let address = listener.url["https://".len()..].trim_end_matches("/mcp");
    let silent = TcpStream::connect(address).await.unwrap();
    let waiting = client(&listener.url, "mutual-ca.pem", false);
    wait_until("a place", async || connect(&waiting).await.is_ok()).await;
    // The silent one had it before.
    let ended = silent.into_std().unwrap().read(&mut [0]);
    let is_open = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(!is_open, "both are served");
}

#[test]
fn unusable_file_is_named_with_its_option() {
    let (cert, key) = ("server.pem", "server.key.pem");
    for (cert, key, ca, said) in [
        ("none", key, None, "none (--tls-cert)"),
        (cert, "none", None, "none (--tls-key)"),
        (key, key, None, "--tls-cert has no certificate"),
        (cert, cert, None, "--tls-key has no private key"),
        (
            cert,
            "leaf.key.pem",
            None,
            "--tls-key is not the key of --tls-cert",
        ),
        (cert, key, Some(key), "--tls-client-ca has no certificate"),
    ] {
        let error = Tls::read(file(cert), file(key), ca.map(file))
            .err()
            .unwrap();
        assert!(format!("{error:#}").contains(said), "{error:#}");
    }
}
