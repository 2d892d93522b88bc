//! Tasks: their specification, creation, observation and reports.

mod create;
mod deliver;
mod follow;
mod permission;
mod report;
mod resume;
mod spec;

pub(crate) use create::create;
pub(crate) use deliver::deliver_results;
pub(crate) use follow::{
    MAX_RESULT_BYTES, MAX_WHOLE_RESULT_BYTES, ObservedTask, TaskSnapshot, observe, part,
    shown_message, task_ids,
};
pub(crate) use permission::{PermissionAnswer, ask_user, send_answer, task_of_question};
pub(crate) use report::{Report, ShortReport, known_exit_code};
pub(crate) use resume::{Continuation, resume};
pub(crate) use spec::TaskSpec;
