//! The tools, one file each.

mod aliases;
mod arguments;
mod cancel_task;
mod delete_task;
mod earlier;
mod get_task_changes;
mod get_task_events;
mod get_task_file;
mod get_task_patch;
mod get_task_result;
mod get_task_status;
mod get_usage;
mod list_agent_profiles;
mod list_tasks;
mod publish_task;
mod respond_confirmation;
mod resume_task;
mod run_parallel_tasks;
mod run_task;
mod send_message;
mod wait;
mod wait_task;

use mcp_core::tool::Toolset;

pub(crate) use get_task_events::GetTaskEvents;
pub(crate) use get_task_result::GetTaskResult;

use crate::OpenHands;

/// All tools, in the order of their use.
pub(crate) fn all() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<run_task::RunTask>()
        .with::<run_parallel_tasks::RunParallelTasks>()
        .with::<wait_task::WaitTask>()
        .with::<get_task_status::GetTaskStatus>()
        .with::<get_task_result::GetTaskResult>()
        .with::<get_task_changes::GetTaskChanges>()
        .with::<list_tasks::ListTasks>()
        .with::<send_message::SendMessage>()
        .with::<cancel_task::CancelTask>()
        .with::<respond_confirmation::RespondConfirmation>()
        .group("control", control())
        .group("inspect", inspect())
        .group(
            "publish",
            Toolset::new().with::<publish_task::PublishTask>(),
        )
        .group("original", aliases::all())
}

/// Tools that resume and delete tasks.
fn control() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<resume_task::ResumeTask>()
        .with::<delete_task::DeleteTask>()
}

/// Tools that show agent profiles, usage, and the events and files of a task.
fn inspect() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<list_agent_profiles::ListAgentProfiles>()
        .with::<get_usage::GetUsage>()
        .with::<get_task_events::GetTaskEvents>()
        .with::<get_task_file::GetTaskFile>()
        .with::<get_task_patch::GetTaskPatch>()
}
