//! The client against the fixture server: every era, over both transports.

mod calls;
mod fixture;
mod server_messages;
