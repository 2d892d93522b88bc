//! The gateway: every MCP server behind one endpoint, supervised and on record.
//!
//! * `gateway`: the gateway at work; `backend`: one server behind it; `relay`: what passes through;
//!   `catalog`: what all of them offer together; `tools`: what it offers itself.
//! * [`config`]: which backends there are, read from one file and followed while it changes.
//! * [`names`]: under which names their tools are published, and the way back.
//! * [`shape`]: what arguments look like, without what they say.
//! * [`events`]: the event log, embedded or shared, that never hurts a call.

mod backend;
mod catalog;
mod config;
mod events;
mod gateway;
mod metrics;
mod names;
mod product;
mod random;
mod relay;
mod sanitise;
mod search;
mod shape;
mod tools;

/// A call that is passed on is many small pieces of memory that do not live long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use product::product;
