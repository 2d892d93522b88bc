//! `get_task_changes`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::api::{FileName, TaskId};
use crate::git::{ChangesQuery, DiffText};
use crate::workspace::read_changes;

/// Bytes of a diff. With the list of files, the answer stays under 2,000 tokens.
const DEFAULT_BYTES: u32 = 5_000;
/// Bytes of the list of files.
const MAX_LIST_BYTES: usize = 1_500;

/// Returns the changes in a task's directory since it started, as a diff, also of repositories in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskChanges {
    /// From run_task.
    task_id: TaskId,
    /// Only this file or directory.
    file: Option<FileName>,
    /// Previous next_offset.
    offset: Option<u32>,
    /// Bytes of the diff; default 5000.
    max_bytes: Option<Bounded<500, 100_000>>,
    /// Files to skip in the list.
    skip_files: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskChanges {
    task_id: TaskId,
    /// Such as "M src/a.py": added, modified, deleted, renamed.
    changed_files: Vec<String>,
    /// Number of all.
    files: usize,
    /// Git format.
    diff: String,
    /// Bytes of the whole diff.
    size: u64,
    /// Start of the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Doubts about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

impl Tool for GetTaskChanges {
    const NAME: &'static str = "get_task_changes";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = TaskChanges;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<TaskChanges, ToolError> {
        let task_id = self.task_id;
        let limit = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let offset = self.offset.unwrap_or_default().into();
        let server = service.task_server(task_id, call).await?;
        let task = server.conversation(task_id).await?;
        let query = ChangesQuery {
            file: self.file.as_ref(),
            offset,
            length: limit,
            ..ChangesQuery::default()
        };
        let changes = read_changes(&server, &task, &query).await?;
        let shown = DiffText::new(&changes, offset, limit);
        let skipped = self.skip_files.unwrap_or_default() as usize;
        Ok(TaskChanges {
            task_id,
            changed_files: changes.lines(skipped, MAX_LIST_BYTES),
            files: changes.count,
            diff: shown.text,
            size: changes.size,
            next_offset: shown.next_offset,
            warnings: changes.warnings,
        })
    }
}
