//! Tasks: their specification, creation, observation and reports.

pub(crate) mod completion;
mod create;
mod deliver;
mod follow;
mod outcome;
mod pending;
mod permission;
mod report;
mod resume;
mod sandbox;
mod snapshot;
mod spec;
mod start_error;
mod verify;

pub(crate) use create::create;
pub(crate) use deliver::deliver_results;
pub(crate) use follow::{ObservedTask, observe, stop_abandoned};
pub(crate) use outcome::{TaskOutcome, TaskStatus};
pub(crate) use permission::{PermissionAnswer, ask_user, send_answer, task_of_question};
pub(crate) use report::{Report, ShortReport};
pub(crate) use resume::{Continuation, resume};
pub(crate) use snapshot::{MAX_RESULT_BYTES, MAX_WHOLE_RESULT_BYTES, TaskSnapshot};
pub(crate) use spec::{Confirm, TaskSpec};
pub(crate) use verify::known_exit_code;
