//! Client of OpenHands: its agent servers (`/api`) and the V1 app server (`/api/v1`).
//!
//! [`Servers`] finds the agent server of a task; [`AgentServer`] has the calls: conversations, events,
//! agent profiles, files and shell scripts. A task is a conversation, and a [`TaskId`] its id; this module knows nothing
//! else of tasks.
//!
//! Every call has a timeout and reads a bounded body. Every failure is an [`ApiFailure`], which is
//! converted to a `ToolError` in one place, with a text for callers of the server's tools.

mod agent_server;
mod app_server;
mod control;
mod conversations;
mod events;
mod failure;
mod file_name;
mod files;
mod pending;
mod probe;
mod profiles;
mod run_end;
mod servers;
mod shell;
pub(crate) mod summary;
mod task_id;
mod version;

pub(crate) use agent_server::AgentServer;
pub(crate) use app_server::{AppConversation, AppServer, NewAppConversation, SandboxStatus};
pub(crate) use conversations::{
    ConfirmationPolicy, Conversation, Execution, MAX_IDS, NewConversation, Plugin, Tags, round_cost,
};
pub(crate) use events::{Event, RunError, event_kind};
pub(crate) use failure::{ApiFailure, ApiResult, SandboxProblem, WORDING};
pub(crate) use file_name::FileName;
pub(crate) use pending::PendingAction;
pub(crate) use profiles::{AgentProfile, ModelProfile, NewAgent};
pub(crate) use run_end::{RunEnd, explain_run_end};
pub(crate) use servers::{Backend, Servers, StartEnd};
pub(crate) use shell::{ScriptOutput, shell_quoted};
pub(crate) use task_id::TaskId;
