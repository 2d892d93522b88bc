//! The load generator of `cargo xtask bench` and `cargo xtask soak`: sends requests, checks the answers,
//! and prints the measurement as one line of JSON.

mod company;
mod http;
mod process;
mod reply;
mod soak;
mod start;
mod stdio;
mod streams;

use std::io::Write as _;

use clap::Parser;
use serde_json::Value;

/// One measurement.
#[derive(Parser)]
enum Load {
    /// Requests over persistent connections, as fast as they are answered.
    Http(http::Options),
    /// Open event streams.
    Streams(streams::Options),
    /// Requests to a child, a number of them in flight.
    Stdio(stdio::Options),
    /// Calls of many clients that use the same ids.
    Soak(soak::Options),
    /// From the start of a server to its first answer.
    Start(start::Options),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let measured: Value = match Load::parse() {
        Load::Http(options) => http::run(options).await?,
        Load::Streams(options) => streams::run(options).await?,
        Load::Stdio(options) => stdio::run(&options)?,
        Load::Soak(options) => soak::run(options).await?,
        Load::Start(options) => start::run(&options)?,
    };
    writeln!(std::io::stdout(), "{measured}")?;
    Ok(())
}
