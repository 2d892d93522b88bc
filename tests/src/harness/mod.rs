//! What the tests stand on: servers as processes, real services, and fakes for faults that real
//! services cannot be made to show.

mod assert;
mod binaries;
mod dialect;
mod fake;
mod memory;
pub(crate) mod real;
mod server;
mod wire;

pub(crate) use assert::assert_has;
pub(crate) use binaries::binary;
pub(crate) use dialect::Dialect;
pub(crate) use fake::{Fake, Request, Response};
pub(crate) use memory::in_memory;
pub(crate) use server::{Reply, Server, stdio, web};
pub(crate) use wire::{Wire, post};
