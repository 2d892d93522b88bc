//! The gateway in front of real servers: what passes, what it keeps to itself, and what it survives.
//!
//! Its backends are the fixture (`mcp-conformance`), over stdio and HTTP and in every era, and a
//! child with bad manners (`mcp-conformance odd`); and servers of others, where they are installed.

mod access;
mod asking;
mod changes;
mod children;
mod crowd;
mod events;
mod front;
mod hostile;
mod lab;
mod passing;
mod real;
mod reload;
mod remote;
mod secrets;
mod seed_003;
mod starts;
