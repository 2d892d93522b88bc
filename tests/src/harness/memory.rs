//! The fixture server without a transport.

use std::sync::Arc;

use clap::Parser as _;
use mcp_core::server::Server;
use mcp_serve::{Command, Key};

/// The fixture as its command line configures it.
pub(crate) fn in_memory<'a>(args: impl Iterator<Item = &'a str>) -> Arc<Server> {
    let (command, key) = (Command::parse_from(args), Key::random().unwrap());
    fixture::product().assemble(command, &key).unwrap().server
}
