//! Reads replies from a connection, with the subset of HTTP that our servers send.

use anyhow::{Context as _, ensure};
use tokio::io::AsyncBufReadExt as _;
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::tcp::OwnedReadHalf;

/// The replies of one connection.
pub(crate) struct Replies {
    input: BufReader<OwnedReadHalf>,
    line: String,
    /// The body of the last reply.
    pub(crate) body: Vec<u8>,
    /// The id of the session that the last reply has opened.
    pub(crate) session: Option<String>,
}

impl Replies {
    pub(crate) fn new(input: OwnedReadHalf) -> Self {
        Self {
            input: BufReader::with_capacity(64 * 1024, input),
            line: String::new(),
            body: Vec::new(),
            session: None,
        }
    }

    /// Reads one reply to its end.
    pub(crate) async fn next(&mut self) -> anyhow::Result<()> {
        self.body.clear();
        match self.head().await? {
            Some(length) => self.chunk(length).await,
            None => loop {
                let length = usize::from_str_radix(self.line().await?.trim(), 16)?;
                self.chunk(length).await?;
                self.line().await?;
                if length == 0 {
                    return Ok(());
                }
            },
        }
    }

    /// Reads a head, which must be a success. Returns the length of the body, `None` if it is chunked.
    async fn head(&mut self) -> anyhow::Result<Option<usize>> {
        let status = self.line().await?;
        ensure!(status.starts_with("HTTP/1.1 20"), "answered {status:?}");
        let mut length = Some(0);
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                return Ok(length);
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse().context("a length")?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = None;
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                self.session = Some(value.to_owned());
            }
        }
    }

    async fn line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        ensure!(
            self.input.read_line(&mut self.line).await? > 0,
            "the server has closed the connection"
        );
        Ok(&self.line)
    }

    async fn chunk(&mut self, length: usize) -> anyhow::Result<()> {
        let start = self.body.len();
        self.body.resize(start + length, 0);
        self.input.read_exact(&mut self.body[start..]).await?;
        Ok(())
    }
}
