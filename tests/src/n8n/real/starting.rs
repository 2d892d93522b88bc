//! A start before n8n is there, or with a key that it does not know.

use tokio::net::{TcpListener, TcpStream};

use super::super::SERVER;
use super::super::site::Site;
use super::super::starting::{is_degraded, is_online};
use crate::harness::Server;

/// The real n8n is there only after a while, at an address that was silent.
#[tokio::test]
async fn an_n8n_that_comes_late_is_used() {
    let Some(site) = Site::new() else { return };
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let url = format!("http://{address}");
    let env = [
        ("N8N_URL", url.as_str()),
        ("N8N_API_KEY", &*site.n8n.api_key),
    ];
    let server = Server::start(SERVER, &env).await;
    is_degraded(&server, "cannot be reached").await;
    let socket = TcpListener::bind(address).await.unwrap();
    let n8n = site.n8n.url.trim_start_matches("http://").to_owned();
    let forwarding = tokio::spawn(async move {
        while let Ok((mut client, _)) = socket.accept().await {
            let n8n = n8n.clone();
            tokio::spawn(async move {
                let mut n8n = TcpStream::connect(n8n).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut n8n).await;
            });
        }
    });
    is_online(&server).await;
    forwarding.abort();
}

#[tokio::test]
async fn a_key_that_is_replaced_is_used() {
    let Some(site) = Site::new() else { return };
    let file = std::env::temp_dir().join(format!("n8n-key-{}", uuid::Uuid::new_v4()));
    std::fs::write(&file, "not-a-key\n").unwrap();
    let path = file.to_str().unwrap();
    let env = [
        ("N8N_URL", site.n8n.url.as_str()),
        ("N8N_API_KEY_FILE", path),
    ];
    let server = Server::start(SERVER, &env).await;
    is_degraded(&server, "refuses the API key").await;
    std::fs::write(&file, &site.n8n.api_key).unwrap();
    is_online(&server).await;
    std::fs::remove_file(file).unwrap();
}
