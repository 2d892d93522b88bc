//! Requests through an HTTP proxy.

use std::sync::Arc;

use mcp_client::{Endpoint, Proxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::server::{last_reply, request_to};
use crate::tls::{private_ca, serve_private};

/// Reads the head of a request.
async fn head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = socket.read_u8().await else {
            break;
        };
        head.push(byte);
    }
    String::from_utf8(head).unwrap()
}

/// Starts a proxy that asks for a password. Returns its address, and the heads of the requests to it.
async fn start() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let head = head(&mut socket).await;
                seen.lock().await.push(head.clone());
                let (method, target) = head.split_once(' ').unwrap();
                let target = target.split(' ').next().unwrap();
                let head = head.to_lowercase();
                if !head.contains("proxy-authorization: basic dtpw") {
                    let status = "407 Proxy Authentication Required";
                    let refused = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    return socket.write_all(refused.as_bytes()).await.unwrap();
                }
                if method == "CONNECT" {
                    let mut server = TcpStream::connect(target).await.unwrap();
                    socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    let _ = copy_bidirectional(&mut socket, &mut server).await;
                    return;
                }
                let reply = last_reply(r#"{"jsonrpc":"2.0","id":1,"result":2}"#);
                socket.write_all(reply.as_bytes()).await.unwrap();
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn https_is_tunnelled_and_the_proxy_sees_no_token() {
    let (proxy, heads) = start().await;
    let server = serve_private().await;
    let endpoint = server.endpoint().tls_files(private_ca());
    let endpoint = endpoint.bearer("s3cret").unwrap();
    let through = |proxy| endpoint.clone().proxy(Proxy::Url(proxy));
    let answer = request_to(through(format!("http://u:p@{proxy}"))).await;
    assert_eq!(answer.unwrap(), "1");
    let heads = heads.lock().await.join("");
    let target = &server.url;
    let target = target
        .trim_start_matches("https://")
        .trim_end_matches("/mcp");
    assert!(heads.starts_with(&format!("CONNECT {target} ")), "{heads}");
    assert!(!heads.contains("s3cret"));
}

#[tokio::test]
async fn http_is_sent_to_the_proxy_with_its_whole_url() {
    let (proxy, heads) = start().await;
    let endpoint = Endpoint::new("http://server.invalid:81/mcp?a=b").unwrap();
    let endpoint = endpoint.proxy(Proxy::Url(format!("http://u:p@{proxy}")));
    assert_eq!(request_to(endpoint).await.unwrap(), "2");
    let heads = heads.lock().await.join("");
    assert!(
        heads.starts_with("POST http://server.invalid:81/mcp?a=b HTTP/1.1"),
        "{heads}"
    );
    assert!(heads.contains("host: server.invalid:81"), "{heads}");
}

#[tokio::test]
async fn failure_of_the_proxy_is_named_without_its_password() {
    let (proxy, _) = start().await;
    let server = serve_private().await;
    for (proxy, said) in [
        (&*proxy, "proxy authorization required"),
        ("127.0.0.1:1", "failed to create underlying connection"),
    ] {
        let proxy = Proxy::Url(format!("http://x:wr0ng@{proxy}"));
        let endpoint = server.endpoint().tls_files(private_ca());
        let error = request_to(endpoint.proxy(proxy)).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("through the proxy 127.0.0.1:"), "{text}");
        assert!(
            text.contains(said) && !format!("{text}{error:?}").contains("wr0ng"),
            "{text}"
        );
    }
}
