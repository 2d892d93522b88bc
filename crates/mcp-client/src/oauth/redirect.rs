//! The address on this machine to which a login returns (RFC 8252, 7.3).

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

/// The path of the address.
const PATH: &str = "/callback";
/// Timeout of one connection: browsers open some that they do not use.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of a request.
const MAX_HEAD: usize = 16 << 10;

/// A listener for one answer.
pub(super) struct Redirect {
    listener: TcpListener,
    pub(super) address: String,
}

impl Redirect {
    pub(super) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, address })
    }

    /// Waits for the answer with this state. Requests with another one are refused.
    pub(super) async fn answer(self, state: &str) -> io::Result<BTreeMap<String, String>> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted?;
                    let state = state.to_owned();
                    connections.spawn(tokio::time::timeout(CONNECTION_TIMEOUT, serve(stream, state)));
                }
                Some(served) = connections.join_next() => {
                    if let Ok(Ok(Some(parameters))) = served {
                        return Ok(parameters);
                    }
                }
            }
        }
    }
}

async fn serve(mut stream: TcpStream, state: String) -> Option<BTreeMap<String, String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read_buf(&mut head).await.ok()?;
        if read == 0 || head.len() > MAX_HEAD {
            return None;
        }
    }
    let parameters = parameters(&head).filter(|found| found.get("state") == Some(&state));
    let (status, text) = match &parameters {
        Some(found) if found.contains_key("code") => ("200 OK", "You are logged in."),
        Some(_) => ("200 OK", "The login was refused."),
        None => ("404 Not Found", "This is not the answer to the login."),
    };
    let body = format!("{text} You can close this page.\n");
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncache-control: no-store\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
    parameters
}

/// The parameters of `GET /callback?…`. One that is repeated makes the answer invalid.
fn parameters(head: &[u8]) -> Option<BTreeMap<String, String>> {
    let head = std::str::from_utf8(head).ok()?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    if url.path() != PATH {
        return None;
    }
    let mut found = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        if found
            .insert(name.into_owned(), value.into_owned())
            .is_some()
        {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_is_read() {
        let read = |line: &str| parameters(format!("{line} HTTP/1.1\r\n\r\n").as_bytes());
        let found = read("GET /callback?code=a%20b&state=s").unwrap();
        assert_eq!(found["code"], "a b");
        for line in [
            "GET /?code=a",
            "POST /callback?code=a",
            "GET /callback?code=a&code=b",
            "GET //evil/callback/..?x",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
