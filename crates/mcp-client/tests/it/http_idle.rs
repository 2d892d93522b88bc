//! Idle connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{Client, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A server that answers one request per connection and then calls `then`; counts the connections.
async fn server<F: Future<Output = ()> + Send>(
    then: impl Fn(TcpStream) -> F + Clone + Send + Sync + 'static,
) -> (Client, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let then = then.clone();
            tokio::spawn(async move {
                let body = request(&mut socket).await;
                let id: serde_json::Value = serde_json::from_str(&body).unwrap();
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id["id"]);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let reply = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
                socket.write_all(reply.as_bytes()).await.unwrap();
                then(socket).await;
            });
        }
    });
    (
        Client::http(Endpoint::new(&url).unwrap()).unwrap(),
        connections,
    )
}

/// The body of a request that comes in one piece or more.
async fn request(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let read = socket.read(&mut bytes).await.unwrap();
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.ends_with('}')
        {
            return body.to_owned();
        }
    }
}

#[tokio::test]
async fn connections_that_the_server_closes_fail_no_request() {
    let (client, connections) = server(async |socket| drop(socket)).await;
    for _ in 0..50 {
        client.request("m", &()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(connections.load(Ordering::Relaxed), 50);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let (ended, mut end) = mpsc::channel(1);
    let (client, _) = server(move |mut socket| {
        let ended = ended.clone();
        async move {
            assert_eq!(socket.read(&mut [0]).await.unwrap(), 0);
            ended.send(()).await.unwrap();
        }
    })
    .await;
    client.request("m", &()).await.unwrap();
    let early = timeout(Duration::from_secs(1), end.recv()).await;
    assert!(early.is_err(), "it was not kept");
    timeout(Duration::from_secs(20), end.recv())
        .await
        .unwrap()
        .unwrap();
}
