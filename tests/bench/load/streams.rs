//! Memory of the server for sessions with one open stream each.

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

use crate::http::request;
use crate::process;
use crate::reply::Replies;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The port on loopback.
    #[arg(long)]
    port: u16,
    /// The process of the server.
    #[arg(long)]
    pid: u32,
    /// Number of streams.
    #[arg(long)]
    count: usize,
    /// An `initialize` request.
    #[arg(long)]
    body: String,
    /// An additional header line.
    #[arg(long)]
    header: Vec<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<Value> {
    // The first stream also allocates shared memory.
    let open = || open(options.port, &options.header, &options.body);
    let first = open().await?;
    let before = process::memory(options.pid)?;
    let mut streams = vec![first];
    for _ in 0..options.count {
        streams.push(open().await?);
    }
    let grown = process::memory(options.pid)?.saturating_sub(before);
    Ok(json!({"streams": options.count, "grown_kib": grown}))
}

/// An open stream, as long as it is kept.
pub(crate) type Stream = (Replies, OwnedWriteHalf);

/// Opens a session, and its stream on the same connection.
pub(crate) async fn open(
    port: u16,
    headers: &[String],
    initialize: &str,
) -> anyhow::Result<Stream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (input, mut output) = stream.into_split();
    let mut replies = Replies::new(input);
    let initialize = request("/mcp", port, headers, initialize);
    output.write_all(&initialize).await?;
    replies.next().await?;
    let session = replies.session.take().context("no session")?;
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let watch = format!(
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {session}\r\n{headers}\r\n"
    );
    output.write_all(watch.as_bytes()).await?;
    replies.head().await?;
    Ok((replies, output))
}
