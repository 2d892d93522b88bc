//! `get_task_file`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::redact::redacted_code;

use crate::OpenHands;
use crate::api::{FileName, TaskId};

/// Bytes of a part. By default an answer stays under 2,000 tokens.
const DEFAULT_BYTES: u32 = 6_000;

/// Returns a file in a task's directory, or a part of it: text, or base64 if it is not text.
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
pub(crate) struct FilePart {
    task_id: TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// A part that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Bytes of the whole file.
    size: u64,
    /// Start of the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Doubts about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

const REDACTED: &str = "Secrets in the part were replaced with ***.";
pub(super) const LOSSY: &str = "Bytes that are not UTF-8 were replaced with \u{fffd}.";

impl Tool for GetTaskFile {
    const NAME: &'static str = "get_task_file";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = FilePart;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<FilePart, ToolError> {
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
        let is_last = offset + part.bytes.len() as u64 >= part.size;
        let text = text(&part.bytes, is_last);
        let length = text.map_or(part.bytes.len(), str::len);
        let end = offset + length as u64;
        let lossy = match text {
            Some(_) => None,
            None => redacted_lossy(&part.bytes),
        };
        Ok(FilePart {
            task_id,
            size: part.size,
            next_offset: (end < part.size && length > 0).then_some(end),
            base64: (text.is_none() && lossy.is_none()).then(|| STANDARD.encode(&part.bytes)),
            warnings: match lossy {
                Some(_) => vec![REDACTED, LOSSY],
                None => vec![],
            },
            text: text.map(|text| redacted_code(text).into_owned()).or(lossy),
        })
    }
}

/// The bytes as text, without an incomplete character at the end of a part that is not the last;
/// `None` if they are no text.
fn text(bytes: &[u8], is_last: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 && !is_last => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// The bytes of a text in another encoding, if it has secrets, with these redacted; `None` if there is
/// nothing to redact or the bytes are no text.
pub(super) fn redacted_lossy(bytes: &[u8]) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    let lossy = String::from_utf8_lossy(bytes);
    let redacted = redacted_code(&lossy);
    (redacted != lossy).then(|| redacted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{redacted_lossy, text};

    #[test]
    fn secret_in_another_encoding_is_redacted() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let file = [b"caf\xe9 ", token.as_bytes()].concat();
        assert_eq!(redacted_lossy(&file).unwrap(), "caf\u{fffd} ***");
        assert_eq!(redacted_lossy(b"caf\xe9"), None);
        assert_eq!(redacted_lossy(&[&file[..], b"\0"].concat()), None);
    }

    #[test]
    fn part_ends_with_a_whole_character() {
        assert_eq!(text("aä".as_bytes(), true), Some("aä"));
        assert_eq!(text(&"aä".as_bytes()[..2], false), Some("a"));
        assert_eq!(text(b"", true), Some(""));
    }

    #[test]
    fn part_without_text_is_none_and_never_empty() {
        for bytes in [&b"\x89PNG\0"[..], b"a\0b", b"caf\xe9", b"\xe9"] {
            assert_eq!(text(bytes, true), None, "{bytes:?}");
        }
        assert_eq!(text(b"\xc3", false), None);
    }
}
