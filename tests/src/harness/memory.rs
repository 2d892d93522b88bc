//! The fixture server without a transport.

use std::sync::Arc;

use clap::Parser as _;
use fixture::{Fixture, FixtureService, NoOptions};
use mcp_core::server::Server;
use mcp_serve::{Command, Key, Product as _, assemble};

/// The fixture as its command line configures it.
pub(crate) fn in_memory<'a>(args: impl Iterator<Item = &'a str>) -> Arc<Server> {
    let command = Command::<NoOptions>::parse_from(args);
    assemble::<Fixture>(
        &command.common,
        &Key::random().unwrap(),
        Fixture::tools(&command.product),
        &Arc::new(FixtureService::default()),
    )
    .unwrap()
}
