//! The gateway: every MCP server behind one endpoint, supervised and on record.
//!
//! * `hub`: the gateway at work; `backend`: one server behind it; `relay`: what passes through;
//!   `offering`: what all of them offer together; `tools`: what it offers itself.
//! * [`config`]: which backends there are, read from one file and followed while it changes.
//! * [`names`]: under which names their tools are published, and the way back.
//! * [`shape`]: what arguments look like, without what they say.
//! * [`events`]: the event log, embedded or shared, that never hurts a call.

mod backend;
pub mod config;
pub mod events;
mod figures;
mod gateway;
mod hub;
pub mod names;
mod offering;
mod relay;
mod sanitise;
pub mod shape;
mod tools;

/// A call that is passed on is many small pieces of memory that do not live long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use gateway::Gateway;
