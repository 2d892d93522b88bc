//! The gateway: every MCP server behind one endpoint, supervised and on record.
//!
//! * [`config`]: which backends there are, read from one file and followed while it changes.
//! * [`names`]: under which names their tools are published, and the way back.
//! * [`shape`]: what arguments look like, without what they say.
//! * [`events`]: the event log, embedded or shared, that never hurts a call.

pub mod config;
pub mod events;
pub mod names;
pub mod shape;
