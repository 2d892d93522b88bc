//! The test harness: servers as processes, real services, and fake services for faults that real ones
//! cannot be made to show.

mod binaries;
mod dialect;
#[macro_use]
mod assertions;
mod fake;
mod memory;
mod raw_connection;
pub(crate) mod real;
mod server;

pub(crate) use assertions::{
    assert_contains, assert_ends_with, assert_has, assert_lacks, assert_starts_with, eventually,
    member_texts, wait_until,
};
pub(crate) use binaries::binary;
pub(crate) use dialect::Dialect;
pub(crate) use fake::{FakeService, Request, Response};
pub(crate) use memory::in_memory;
pub(crate) use raw_connection::{RawConnection, post};
pub(crate) use server::{Reply, Server, Session, http_client, stdio_client};
