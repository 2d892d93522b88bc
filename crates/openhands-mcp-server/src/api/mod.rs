//! The API of the OpenHands agent server, and that of the app server in front of some, as far as they
//! are used here.
//!
//! Every call has a deadline and reads a bounded body; every failure is a [`Failure`], which becomes
//! a `ToolError` in one place.

mod app_server;
mod control;
mod conversations;
mod events;
mod failure;
mod files;
mod http;
mod other;
mod profiles;
mod servers;
mod shell;
mod socket;

pub(crate) use app_server::{AppConversation, AppServer, NewAppConversation, SandboxStatus};
pub(crate) use conversations::{Conversation, Execution, Listed, NewConversation};
pub(crate) use events::{Action, Event, RunError, Text, kind};
pub(crate) use failure::{Failure, Sandbox};
pub(crate) use http::AgentServer;
pub(crate) use servers::Servers;
pub(crate) use shell::quoted;
pub(crate) use socket::EventSocket;
