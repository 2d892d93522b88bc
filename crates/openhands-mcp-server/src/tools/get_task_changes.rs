//! `get_task_changes`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::text::head;

use crate::OpenHands;
use crate::api::TaskId;
use crate::workspace::FileName;
use crate::workspace::changes::{self, ChangedFiles};

/// Bytes of a diff: with the list of files, an answer stays under 2,000 tokens.
const DEFAULT_BYTES: u32 = 5_000;
/// Bytes of the list of files.
const MAX_LIST: usize = 1_500;

/// Returns what a task changed in its directory since it began, as a diff.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskChanges {
    /// From run_task.
    task_id: TaskId,
    /// Only of this file or directory.
    file: Option<FileName>,
    /// Bytes of the diff; default 5000.
    max_bytes: Option<Bounded<500, 100_000>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Changes {
    task_id: TaskId,
    /// Such as "M src/a.py": added, modified, deleted.
    changed_files: Vec<String>,
    /// As git writes it.
    diff: String,
}

impl Tool for GetTaskChanges {
    const NAME: &'static str = "get_task_changes";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Changes;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Changes, ToolError> {
        let task_id = self.task_id;
        let limit = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let server = service.servers.at(task_id).await?;
        let task = server.conversation(task_id).await?;
        let changed = ChangedFiles::read(&server, &task).await?;
        let found = changes::diff(&server, &task, self.file.as_ref(), limit).await?;
        let shown = found.text.len();
        let mut diff = head(&found.text, limit);
        if found.is_cut && shown == diff.len() {
            let size = found.size;
            diff += &format!("\n[cut: {shown} of {size} bytes shown; name a file, or max_bytes]");
        }
        Ok(Changes {
            task_id,
            changed_files: changed.lines(MAX_LIST),
            diff,
        })
    }
}
