//! A model that does what the prompt says: an OpenAI-compatible endpoint on loopback.
//!
//! It makes an agent predictable, so that tests and the first run need no real model. It keeps no
//! state: the next step follows from the conversation in the request.

mod completion;
mod http;
mod script;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::thread;

use crate::console;
use crate::shutdown::Shutdown;

const DEFAULT_PORT: u16 = 8001;

/// Serves until a request to shut down.
pub(crate) fn run(port: Option<u16>, shutdown: &Shutdown) -> anyhow::Result<ExitCode> {
    let address = serve_in_background(port.unwrap_or(DEFAULT_PORT))?;
    console::print_line(format_args!(
        "scripted model: http://{address}/v1 (any model name, any key)"
    ));
    shutdown.wait();
    Ok(ExitCode::SUCCESS)
}

/// Serves on loopback until this process ends; port 0 takes a free one.
pub(crate) fn serve_in_background(port: u16) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The error of a client that disconnects is ignored.
            thread::spawn(move || http::serve(stream));
        }
    });
    Ok(address)
}
