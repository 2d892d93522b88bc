//! A connection that says exactly what a test writes: heads, bodies and ends that no HTTP client
//! would send.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use super::Reply;

/// Longer than any limit of a server under test.
const PATIENCE: Duration = Duration::from_secs(30);

/// One TCP connection.
pub(crate) struct RawConnection(BufReader<TcpStream>);

impl RawConnection {
    /// Connects to the host of `url`.
    pub(crate) async fn connect(url: &str) -> Self {
        let stream = TcpStream::connect(authority(url)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// Connects with a receive buffer that is soon full.
    pub(crate) async fn with_small_buffer(url: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(authority(url).parse().unwrap()).await;
        Self(BufReader::new(stream.unwrap()))
    }

    /// The reply to one request on a connection of its own.
    pub(crate) async fn round_trip(url: &str, request: impl AsRef<[u8]>) -> Reply {
        let mut wire = Self::connect(url).await;
        wire.send(request).await;
        wire.reply().await.unwrap()
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends until everything is sent or the server takes no more; how much it took.
    pub(crate) async fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            match within(self.0.get_mut().write(&bytes[taken..])).await {
                Ok(written) => taken += written,
                Err(_) => break,
            }
        }
        taken
    }

    /// Whether the server says anything within `patience`, the end of the connection included.
    pub(crate) async fn is_readable_within(&mut self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.0.fill_buf())
            .await
            .is_ok()
    }

    /// Whether the connection is still open and silent after `pause`.
    pub(crate) async fn is_open(&mut self, pause: Duration) -> bool {
        !self.is_readable_within(pause).await
    }

    /// Ends the connection with a reset, as a process that dies does.
    pub(crate) fn reset(self) {
        let stream = self.0.into_inner();
        stream.set_zero_linger().unwrap();
    }

    /// The next reply; `None` where the server has ended the connection instead.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        let (status, headers) = self.head().await?;
        let length = headers.get("content-length").map(|length| {
            let length = length.to_str().unwrap();
            length.parse::<usize>().unwrap()
        });
        let mut body = Vec::new();
        if headers.contains_key("transfer-encoding") {
            while let Some(chunk) = self.chunk().await {
                body.extend_from_slice(&chunk);
            }
        } else {
            body.resize(length.unwrap_or_default(), 0);
            within(self.0.read_exact(&mut body)).await.unwrap();
        }
        let body = String::from_utf8(body).unwrap();
        Some(Reply {
            status,
            headers,
            body,
        })
    }

    /// Status and headers; `None` at the end of the connection.
    pub(crate) async fn head(&mut self) -> Option<(u16, http::HeaderMap)> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = http::HeaderMap::new();
        loop {
            let line = self.line().await.expect("the head has an end");
            let Some((name, value)) = line.split_once(": ") else {
                return Some((status, headers));
            };
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
    }

    /// The next chunk of a chunked body; `None` after the last, or at the end of the connection.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line().await?;
        let size = usize::from_str_radix(&line, 16).unwrap();
        let mut chunk = vec![0; size + 2];
        within(self.0.read_exact(&mut chunk)).await.ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// Everything up to the end of the connection, which the server must bring about.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = within(self.0.read_to_end(&mut rest)).await;
        String::from_utf8(rest).unwrap()
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match within(self.0.read_line(&mut line)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }
}

/// A complete `POST /mcp` with this body and these further header lines.
pub(crate) fn post(fields: &[&str], body: &str) -> String {
    let mut head = String::from("POST /mcp HTTP/1.1\r\nHost: localhost\r\n");
    for field in fields {
        head.push_str(field);
        head.push_str("\r\n");
    }
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn authority(url: &str) -> &str {
    let rest = url.strip_prefix("http://").unwrap();
    rest.split('/').next().unwrap()
}

#[track_caller]
fn within<T>(wait: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.unwrap_or_else(|_| panic!("{place}: the server says nothing and stays"))
    }
}
