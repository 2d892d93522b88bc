//! The test harness: servers as processes, real services, and fake services for faults that real ones
//! cannot be made to show.

mod dialect;
#[macro_use]
mod assertions;
mod event_stream;
mod fake;
mod folder;
mod message;
mod raw_connection;
pub(crate) mod real;
mod recorder;
mod server;

pub(crate) use assertions::{
    assert_contains, assert_ends_with, assert_has, assert_lacks, assert_starts_with, eventually,
    member_texts, wait_until,
};
pub(crate) use dialect::Dialect;
pub(crate) use event_stream::{Event, EventStream};
pub(crate) use fake::{Body, FakeService, HttpServer, Request, Response};
pub(crate) use folder::Folder;
pub(crate) use message::{initialize, modern_meta, response, rpc, rpc_call};
pub(crate) use raw_connection::{RawConnection, post};
pub(crate) use recorder::{Messages, accepted, recorder};
pub(crate) use server::{
    CALL_TIMEOUT, Reply, Server, Session, binary, client_builder, free_port, http_client,
    in_memory, post_message, stdio_client,
};
