//! Clients beside the measured ones: sessions and streams that do nothing, and one client with large
//! answers.

use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use crate::http::request;
use crate::reply::Replies;
use crate::streams::{self, Stream};

// No group: two of the same name would be in one command.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Sessions without a stream that are opened before the measurement.
    #[arg(long, default_value_t = 0, requires = "idle")]
    sessions: usize,
    /// Sessions with an open stream each.
    #[arg(long, default_value_t = 0, requires = "idle")]
    streams: usize,
    /// The `initialize` request of these sessions.
    #[arg(long)]
    idle: Option<String>,
    /// A request that one more connection repeats during the measurement.
    #[arg(long)]
    pub(crate) beside: Option<String>,
}

impl Options {
    /// Opens the sessions and streams. Dropping the result closes the streams.
    pub(crate) async fn open(&self, port: u16, headers: &[String]) -> anyhow::Result<Vec<Stream>> {
        let Some(initialize) = &self.idle else {
            return Ok(Vec::new());
        };
        let (input, mut output) = TcpStream::connect(("127.0.0.1", port)).await?.into_split();
        let mut replies = Replies::new(input);
        let message = request("/mcp", port, headers, initialize);
        for _ in 0..self.sessions {
            output.write_all(&message).await?;
            replies.next().await?;
            replies.session.take().context("no session")?;
        }
        let mut streams = Vec::new();
        for _ in 0..self.streams {
            streams.push(streams::open(port, headers, initialize).await?);
        }
        Ok(streams)
    }
}

/// Sends a request again and again, each after the answer to the one before. It has a thread of its own: reading a large
/// answer would delay the measured clients.
pub(crate) fn repeat(port: u16, request: Vec<u8>) -> JoinHandle<anyhow::Result<()>> {
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (input, mut output) = TcpStream::connect(("127.0.0.1", port)).await?.into_split();
            let mut replies = Replies::new(input);
            loop {
                output.write_all(&request).await?;
                replies.next().await?;
            }
        })
    })
}
