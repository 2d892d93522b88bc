//! A server that starts before n8n, or with a wrong key.

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::n8n::starting::{assert_degraded, assert_online};

/// The real n8n starts later, at an address where no server was listening.
#[tokio::test]
async fn n8n_that_starts_later_is_used() {
    let Some(n8n) = Instance::new() else { return };
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let url = format!("http://{address}");
    let env = [
        ("N8N_URL", url.as_str()),
        ("N8N_API_KEY", &n8n.config.api_key),
    ];
    let server = Server::start(SERVER, &env).await;
    assert_degraded(&server, "cannot be reached").await;
    let socket = TcpListener::bind(address).await.unwrap();
    let n8n = n8n.config.url.trim_start_matches("http://").to_owned();
    let forwarding = tokio::spawn(async move {
        while let Ok((mut client, _)) = socket.accept().await {
            let n8n = n8n.clone();
            tokio::spawn(async move {
                let mut n8n = TcpStream::connect(n8n).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut n8n).await;
            });
        }
    });
    assert_online(&server).await;
    forwarding.abort();
}

#[tokio::test]
async fn replaced_key_is_used() {
    let Some(n8n) = Instance::new() else { return };
    let file = std::env::temp_dir().join(format!("n8n-key-{}", uuid::Uuid::new_v4()));
    std::fs::write(&file, "not-a-key\n").unwrap();
    let path = file.to_str().unwrap();
    let env = [
        ("N8N_URL", n8n.config.url.as_str()),
        ("N8N_API_KEY_FILE", path),
    ];
    let server = Server::start(SERVER, &env).await;
    assert_degraded(&server, "refuses the API key").await;
    std::fs::write(&file, &n8n.config.api_key).unwrap();
    assert_online(&server).await;
    std::fs::remove_file(file).unwrap();
}
