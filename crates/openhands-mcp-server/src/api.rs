//! Client of OpenHands: its agent servers (`/api`) and the V1 app server (`/api/v1`).
//!
//! [`Servers`] finds the agent server of a task; [`AgentServer`] has the calls: conversations, events,
//! agent profiles, files and shell scripts. A task is a conversation, and a [`TaskId`] its id; what this server keeps of it
//! is in [`tags`].
//!
//! Every call has a timeout and reads a bounded body. Every failure is an [`ApiFailure`], which is
//! converted to a `ToolError` in one place, with a text for callers of the server's tools.

mod agent_server;
mod app_server;
mod conversations;
mod events;
mod failure;
mod files;
mod names;
pub(crate) mod tags;

pub(crate) use agent_server::AgentServer;
pub(crate) use app_server::{
    AppConversation, AppServer, Backend, SandboxStatus, Servers, StartEnd, StartStatus,
    first_message,
};
pub(crate) use conversations::{
    AgentProfile, Confirm, Conversation, Execution, ModelProfile, NewConversation, Plugin,
    round_cost,
};
pub(crate) use events::{Event, PendingAction, RunEnd, event_kind, explain_run_end, summary};
pub(crate) use failure::{ApiFailure, ApiResult, SandboxProblem, WORDING, with_more};
pub(crate) use files::{Claim, ScriptOutput, shell_quoted};
pub(crate) use names::{FileName, TaskId};
