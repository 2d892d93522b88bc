//! `get_task_archive`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::OpenHands;
use crate::api::{ArchivePart, FileName, MAX_ARCHIVE_BYTES, TaskId, archive_part};

const DEFAULT_BYTES: u32 = 24_000;

/// Returns files of a task's directory as a tar.gz archive, in parts. Append the decoded parts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskArchive {
    /// From run_task.
    task_id: TaskId,
    /// Only this file or directory; default all but .git, node_modules and virtual environments.
    file: Option<FileName>,
    /// Previous next_cursor.
    cursor: Option<String>,
    /// Bytes of a part; default 24000.
    max_bytes: Option<Bounded<1000, 500_000>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskArchive {
    task_id: TaskId,
    /// Part of the archive.
    base64: String,
    /// Bytes of the whole archive.
    size: u64,
    /// For the rest, within an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Doubts about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

const INCOMPLETE: &str = "tar could not read all files, or they changed meanwhile: the archive may \
    lack some of them.";

impl Tool for GetTaskArchive {
    const NAME: &'static str = "get_task_archive";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = TaskArchive;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<TaskArchive, ToolError> {
        let task_id = self.task_id;
        let length = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get);
        let cursor = self.cursor.as_deref().map(parse_cursor).transpose()?;
        let (id, offset) = cursor.unwrap_or_else(|| (Uuid::new_v4(), 0));
        let server = service.task_server(task_id, call).await?;
        let task = server.conversation(task_id).await?;
        let wanted = ArchivePart {
            id,
            is_new: cursor.is_none(),
            file: self.file.as_ref(),
            offset,
            length: length.into(),
        };
        let part = archive_part(&server, &task, &wanted).await?;
        let end = offset + part.bytes.len() as u64;
        Ok(TaskArchive {
            task_id,
            base64: STANDARD.encode(&part.bytes),
            size: part.size,
            next_cursor: (end < part.size).then(|| format!("{}:{end}", id.simple())),
            warnings: part
                .is_incomplete
                .then_some(INCOMPLETE)
                .into_iter()
                .collect(),
        })
    }
}

/// Parses the archive and the offset of the next part.
fn parse_cursor(cursor: &str) -> Result<(Uuid, u64), ToolError> {
    let parts = cursor.split_once(':');
    let parsed = parts.and_then(|(id, offset)| {
        let id = Uuid::try_parse(id).ok()?;
        let offset = offset.parse().ok()?;
        (offset <= MAX_ARCHIVE_BYTES).then_some((id, offset))
    });
    parsed.ok_or_else(|| {
        ToolError::invalid_argument("cursor must be the next_cursor of a previous result.")
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::parse_cursor;

    #[test]
    fn cursor_is_within_the_largest_archive() {
        let id = Uuid::new_v4().simple().to_string();
        assert_eq!(parse_cursor(&format!("{id}:7")).unwrap().1, 7);
        for offset in ["67108865", "18446744073709551615", "-1", ""] {
            assert!(parse_cursor(&format!("{id}:{offset}")).is_err(), "{offset}");
        }
    }
}
