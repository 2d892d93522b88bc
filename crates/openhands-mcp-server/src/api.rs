//! The APIs of the OpenHands agent server and of the V1 app server, as far as they are used here: wire
//! types and calls. Knows nothing of tasks, tools or budgets.
//!
//! Every call has a timeout and reads a bounded body. Every failure is an [`ApiFailure`], which is
//! converted to a `ToolError` in one place.

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
mod version;

pub(crate) use agent_server::AgentServer;
pub(crate) use app_server::{AppConversation, AppServer, NewAppConversation, SandboxStatus};
pub(crate) use conversations::{
    ConfirmationPolicy, Conversation, Execution, ListedConversation, NewConversation, Plugin, Tags,
};
pub(crate) use events::{Event, RunError, TextPart, event_kind};
pub(crate) use failure::{ApiFailure, ApiResult, SandboxProblem};
pub(crate) use profiles::AgentProfile;
pub(crate) use servers::{Backend, Servers};
pub(crate) use shell::{ScriptOutput, shell_quoted};
pub(crate) use socket::EventSocket;
pub(crate) use task_id::TaskId;
