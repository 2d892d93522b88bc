//! What the tests stand on: servers as processes, real services, and fakes for faults that real
//! services cannot be made to show.

mod binaries;
mod dialect;
#[macro_use]
mod expect;
mod fake;
mod memory;
pub(crate) mod real;
mod server;
mod wire;

pub(crate) use binaries::binary;
pub(crate) use dialect::Dialect;
pub(crate) use expect::{contains, ends_with, eventually, has, lacks, starts_with, texts, until};
pub(crate) use fake::{Fake, Request, Response};
pub(crate) use memory::in_memory;
pub(crate) use server::{Reply, Server, Session, stdio, web};
pub(crate) use wire::{Wire, post};
