//! The API of the OpenHands agent server, as far as it is used here.
//!
//! Every call has a deadline and reads a bounded body; every failure is a [`Failure`], which becomes
//! a `ToolError` in one place.

mod control;
mod conversations;
mod events;
mod failure;
mod files;
mod http;
mod other;
mod profiles;
mod shell;
mod socket;

pub(crate) use conversations::{Conversation, Execution, Listed, NewConversation};
pub(crate) use events::{Action, Event, RunError, Text, kind};
pub(crate) use failure::Failure;
pub(crate) use http::AgentServer;
pub(crate) use shell::quoted;
