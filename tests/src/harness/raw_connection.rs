//! A raw TCP connection, for requests that no HTTP client would send.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use super::{CALL_TIMEOUT, Reply};

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

    /// Connects and sends this.
    pub(crate) async fn sending(url: &str, bytes: impl AsRef<[u8]>) -> Self {
        let mut wire = Self::connect(url).await;
        wire.send(bytes).await;
        wire
    }

    /// Sends a request on its own connection and reads the reply.
    pub(crate) async fn round_trip(url: &str, request: impl AsRef<[u8]>) -> Reply {
        let mut wire = Self::sending(url, request).await;
        wire.reply().await.unwrap()
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends until all is sent or the server closes the connection; returns the number of bytes sent.
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

    /// Returns true if the server sends something or closes the connection within this time.
    pub(crate) async fn is_readable_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.0.fill_buf()).await.is_ok()
    }

    /// Closes the connection with a TCP reset, as a crashed process does.
    pub(crate) fn reset(self) {
        let stream = self.0.into_inner();
        stream.set_zero_linger().unwrap();
    }

    /// The next reply; `None` if the server closes the connection instead.
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

    /// The next status and headers; `None` at the end of the connection.
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

    /// Reads until the server closes the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        // A reset counts as a close.
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

/// A complete `POST /mcp` with this body and these additional header lines.
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
        let waited = tokio::time::timeout(CALL_TIMEOUT, wait).await;
        waited.unwrap_or_else(|_| panic!("{place}: no data, and the connection stays open"))
    }
}
