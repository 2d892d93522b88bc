//! A model that does what the prompt says: an OpenAI-compatible endpoint on loopback.
//!
//! It makes an agent predictable, so that tests and the first run need no real model.
//! It keeps no state: what comes next follows from the conversation that is sent.

mod answer;
mod http;
mod plan;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::thread;

use crate::console;
use crate::stop::Stop;

/// Where it listens unless told otherwise.
const DEFAULT_PORT: u16 = 8001;

/// Serves until somebody asks this program to stop.
pub(crate) fn run(port: Option<u16>, stop: &Stop) -> anyhow::Result<ExitCode> {
    let address = serve_in_background(port.unwrap_or(DEFAULT_PORT))?;
    console::line(format_args!(
        "scripted model: http://{address}/v1 (any model name, any key)"
    ));
    stop.wait();
    Ok(ExitCode::SUCCESS)
}

/// Serves on loopback as long as this process lives; port 0 takes a free one.
pub(crate) fn serve_in_background(port: u16) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away in the middle is its own affair.
            thread::spawn(move || http::serve(stream));
        }
    });
    Ok(address)
}
