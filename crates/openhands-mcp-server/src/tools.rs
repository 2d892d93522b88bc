//! The tools.

mod control;
mod list;
mod publish_task;
mod read;
mod run;
mod wait;

use mcp_core::tool::Toolset;

pub(crate) use read::{GetTaskEvents, GetTaskResult};

use crate::OpenHands;

/// All tools, in the order of their use.
pub(crate) fn all() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<run::RunTask>()
        .with::<run::RunParallelTasks>()
        .with::<wait::WaitTask>()
        .with::<read::GetTaskStatus>()
        .with::<read::GetTaskResult>()
        .with::<read::GetTaskChanges>()
        .with::<list::ListTasks>()
        .with::<control::SendMessage>()
        .with::<control::CancelTask>()
        .with::<control::RespondConfirmation>()
        .group("control", control())
        .group("inspect", inspect())
        .group(
            "publish",
            Toolset::new().with::<publish_task::PublishTask>(),
        )
}

/// Tools that resume and delete tasks.
fn control() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<control::ResumeTask>()
        .with::<control::DeleteTask>()
}

/// Tools that show agent profiles, usage, and the events and files of a task.
fn inspect() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<list::ListAgentProfiles>()
        .with::<list::GetUsage>()
        .with::<read::GetTaskEvents>()
        .with::<read::GetTaskFile>()
        .with::<read::GetTaskPatch>()
}
