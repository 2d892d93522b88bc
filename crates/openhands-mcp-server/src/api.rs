//! The API of the OpenHands agent server, and that of the app server in front of some, as far as they
//! are used here: wire types and calls, without any knowledge of what they are used for.
//!
//! Every call has a deadline and reads a bounded body; every failure is a [`Failure`], which becomes
//! a `ToolError` in one place.

mod agent_server;
mod app_server;
mod control;
mod conversations;
mod events;
mod failure;
mod files;
mod probe;
mod profiles;
mod servers;
mod shell;
mod socket;
mod task_id;

pub(crate) use agent_server::AgentServer;
pub(crate) use app_server::{AppConversation, AppServer, NewAppConversation, SandboxStatus};
pub(crate) use conversations::{
    ConfirmationPolicy, Conversation, Execution, ListedConversation, NewConversation, Plugin, Tags,
};
pub(crate) use events::{Action, Event, RunError, Text, kind};
pub(crate) use failure::{Failure, Sandbox};
pub(crate) use servers::{Backend, Servers};
pub(crate) use shell::quoted;
pub(crate) use socket::EventSocket;
pub(crate) use task_id::TaskId;
