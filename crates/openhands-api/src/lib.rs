//! Client of OpenHands: its agent servers (`/api`) and the V1 app server (`/api/v1`), as far as
//! `openhands-mcp-server` uses them.
//!
//! [`Servers`] finds the agent server of a task; [`AgentServer`] has the calls: conversations, events,
//! agent profiles, files and shell scripts; [`EventListeners`] listens for events. A task is a conversation, and a
//! [`TaskId`] its id; more of tasks, their state and their limits is in the server.
//!
//! Every call has a timeout and reads a bounded body. Every failure is an [`ApiFailure`], which is
//! converted to a `ToolError` in one place, with a text for callers of the server's tools.

mod agent_server;
mod app_server;
mod archive;
mod claim;
mod control;
mod conversations;
mod events;
mod failure;
mod file_name;
mod files;
mod listener;
mod pending;
mod probe;
mod profiles;
mod run_end;
mod servers;
mod shell;
mod socket;
pub mod summary;
mod task_id;
mod version;

pub use agent_server::AgentServer;
pub use app_server::{
    AppConversation, AppServer, ConversationStart, NewAppConversation, SandboxStatus,
};
pub use archive::{ArchivePart, MAX_ARCHIVE_BYTES, ReadPart, archive_part};
pub use claim::{Claim, Claimed};
pub use conversations::{
    ConfirmationPolicy, Conversation, Execution, MAX_IDS, NewConversation, Plugin, Tags, round_cost,
};
pub use events::{Event, RunError, TextPart, event_kind};
pub use failure::{ApiFailure, ApiResult, SandboxProblem, WORDING};
pub use file_name::FileName;
pub use listener::{EventListeners, Listener};
pub use pending::PendingAction;
pub use profiles::{AgentProfile, ModelProfile, NewAgent};
pub use run_end::{RunEnd, explain_run_end};
pub use servers::{Backend, Servers, StartEnd};
pub use shell::{ScriptOutput, shell_quoted};
pub use task_id::TaskId;
