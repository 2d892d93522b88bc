//! `get_task_file`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::redact::redacted_code;

use crate::OpenHands;
use crate::api::TaskId;
use crate::workspace::FileName;

/// Bytes of a part. By default an answer stays under 2,000 tokens.
const DEFAULT_BYTES: u32 = 6_000;

/// Returns the text of a file in a task's directory, or a part of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskFile {
    /// From run_task.
    task_id: TaskId,
    /// Path from the task's directory, such as src/app.py.
    file: FileName,
    /// Previous next_offset; default 0.
    offset: Option<u32>,
    /// Bytes of the part; default 6000.
    max_bytes: Option<Bounded<16, 200_000>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct FileText {
    task_id: TaskId,
    text: String,
    /// Bytes of the whole file.
    size: u64,
    /// Start of the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

impl Tool for GetTaskFile {
    const NAME: &'static str = "get_task_file";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = FileText;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<FileText, ToolError> {
        let task_id = self.task_id;
        let offset = u64::from(self.offset.unwrap_or(0));
        let length = u64::from(self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get));
        // Distinguishes a missing task from a missing file.
        let server = service.task_server(task_id, call).await?;
        server.conversation(task_id).await?;
        let part = server.workspace_file(task_id, self.file.as_str(), offset, length);
        let part = part.await.map_err(|failure| {
            if failure.is_bad_request() {
                ToolError::forbidden(
                    "The file is a link that leads out of the task's directory, so it is not shown.",
                )
            } else if failure.is_not_found() {
                ToolError::not_found(
                    "There is no such file in the task's directory. get_task_changes lists what \
                     the agent made; names are relative to that directory.",
                )
            } else {
                failure.into()
            }
        })?;
        let text = text(&part.bytes, offset).ok_or_else(|| {
            let size = part.size;
            ToolError::conflict(format!(
                "The file is not text ({size} bytes), so it cannot be shown."
            ))
        })?;
        let end = offset + text.len() as u64;
        Ok(FileText {
            task_id,
            size: part.size,
            next_offset: (end < part.size).then_some(end),
            text: redacted_code(text).into_owned(),
        })
    }
}

/// The bytes as text, without an incomplete character at the end; `None` if they are no text.
fn text(bytes: &[u8], offset: u64) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // Our own `next_offset` never points into a character, so other errors mean that it is no text.
        Err(error) if error.error_len().is_none() && (error.valid_up_to() > 0 || offset > 0) => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn part_ends_with_a_whole_character() {
        assert_eq!(text("aä".as_bytes(), 0), Some("aä"));
        assert_eq!(text(&"aä".as_bytes()[..2], 0), Some("a"));
        assert_eq!(text(b"\x89PNG\0", 0), None);
        assert_eq!(text(b"a\0b", 0), None);
        assert_eq!(text(b"", 5), Some(""));
    }
}
