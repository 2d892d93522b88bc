//! `get_task_changes`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::text::head;

use crate::OpenHands;
use crate::api::TaskId;
use crate::workspace::FileName;
use crate::workspace::changes::{self, ChangedFiles};

/// Bytes of a diff. With the list of files, the answer stays under 2,000 tokens.
const DEFAULT_BYTES: u32 = 5_000;
/// Bytes of the list of files.
const MAX_LIST_BYTES: usize = 1_500;

/// Returns the changes in a task's directory since it started, as a diff.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskChanges {
    /// From run_task.
    task_id: TaskId,
    /// Only this file or directory.
    file: Option<FileName>,
    /// Bytes of the diff; default 5000.
    max_bytes: Option<Bounded<500, 100_000>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskChanges {
    task_id: TaskId,
    /// Such as "M src/a.py": added, modified, deleted.
    changed_files: Vec<String>,
    /// Git format.
    diff: String,
}

impl Tool for GetTaskChanges {
    const NAME: &'static str = "get_task_changes";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = TaskChanges;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<TaskChanges, ToolError> {
        let task_id = self.task_id;
        let limit = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let server = service.servers.for_task(task_id).await?;
        let task = server.conversation(task_id).await?;
        let changed = ChangedFiles::read(&server, &task).await?;
        let found = changes::diff(&server, &task, self.file.as_ref(), limit).await?;
        let shown = found.text.len();
        let mut diff = head(&found.text, limit);
        if found.is_truncated && shown == diff.len() {
            let size = found.size;
            diff += &format!("\n[cut: {shown} of {size} bytes shown; name a file, or max_bytes]");
        }
        Ok(TaskChanges {
            task_id,
            changed_files: changed.lines(MAX_LIST_BYTES),
            diff,
        })
    }
}
