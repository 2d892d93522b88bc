//! `get_task_patch`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::redact::redacted_code;

use super::get_task_file::LOSSY;
use crate::OpenHands;
use crate::api::{FileName, TaskId};
use crate::git::{ChangesQuery, is_object_id, part_end};
use crate::workspace::read_changes;

const DEFAULT_BYTES: u32 = 6_000;

/// Returns the changes of a task as a patch for `git apply`, binary files too. Append the parts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskPatch {
    /// From run_task.
    task_id: TaskId,
    /// Directory of a repository in the task's directory; default the task's directory.
    repository: Option<FileName>,
    /// Previous next_cursor.
    cursor: Option<String>,
    /// Bytes of a part; default 6000.
    max_bytes: Option<Bounded<500, 200_000>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PatchPart {
    task_id: TaskId,
    /// Part of the patch.
    patch: String,
    /// `base64` if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    /// Bytes of the whole patch.
    size: u64,
    /// For the rest, of the same moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Others with changes, each with a patch of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repositories: Vec<String>,
    /// Doubts about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

impl Tool for GetTaskPatch {
    const NAME: &'static str = "get_task_patch";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = PatchPart;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<PatchPart, ToolError> {
        let task_id = self.task_id;
        let limit = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let (content, offset) = self
            .cursor
            .as_deref()
            .map(parse_cursor)
            .transpose()?
            .unzip();
        let offset = offset.unwrap_or_default();
        let repository = self.repository.as_ref().map_or(".", FileName::as_str);
        let server = service.task_server(task_id, call).await?;
        let task = server.conversation(task_id).await?;
        let query = ChangesQuery {
            patch_of: Some(repository),
            content,
            offset,
            length: limit,
            ..ChangesQuery::default()
        };
        let mut changes = read_changes(&server, &task, &query).await?;
        if changes.is_absent {
            return Err(ToolError::not_found(format!(
                "repository: there is no git repository {repository} in the task's directory. \
                 get_task_patch without it lists those with changes."
            )));
        }
        let shown = part_end(&changes.diff, limit, changes.size.saturating_sub(offset));
        let next = offset + shown as u64;
        let part = changes.diff.get(..shown).unwrap_or_default();
        let (patch, encoding) = match std::str::from_utf8(part) {
            Ok(text) => {
                let redacted = redacted_patch(text);
                if redacted != text {
                    changes.warnings.push(REDACTED);
                }
                (redacted, None)
            }
            Err(_) => {
                let text = String::from_utf8_lossy(part);
                let redacted = redacted_patch(&text);
                match redacted == text {
                    true => (STANDARD.encode(part), Some("base64")),
                    false => {
                        changes.warnings.extend([REDACTED, LOSSY]);
                        (redacted, None)
                    }
                }
            }
        };
        changes.repositories.retain(|other| other != repository);
        Ok(PatchPart {
            task_id,
            patch,
            encoding,
            size: changes.size,
            next_cursor: (next < changes.size).then(|| format!("{}:{next}", changes.content)),
            repositories: changes.repositories,
            warnings: changes.warnings,
        })
    }
}

const REDACTED: &str = "Secrets in the patch were replaced with ***, so git may refuse it.";

/// Redacts a patch, but for the bytes of binary files: they are compressed, so a secret is not visible in them, and by
/// chance they may look like one.
fn redacted_patch(patch: &str) -> String {
    let (mut redacted, mut text) = (String::with_capacity(patch.len()), String::new());
    for line in patch.split_inclusive('\n') {
        if is_binary(line) {
            redacted.push_str(&redacted_code(&std::mem::take(&mut text)));
            redacted.push_str(line);
        } else {
            text.push_str(line);
        }
    }
    redacted.push_str(&redacted_code(&text));
    redacted
}

/// Whether it is a line of a binary file (`git format-patch`, "GIT binary patch"): a letter for the number of bytes, and
/// five characters for each four bytes. All other lines of files begin with a mark.
fn is_binary(line: &str) -> bool {
    let bytes = match line.bytes().next() {
        Some(letter @ b'A'..=b'Z') => letter - b'A' + 1,
        Some(letter @ b'a'..=b'z') => letter - b'a' + 27,
        _ => return false,
    };
    let line = line.trim_end_matches('\n');
    line.len() == 1 + usize::from(bytes).div_ceil(4) * 5 && !line.contains(' ')
}

/// Parses the id of the content and the offset of the next part.
fn parse_cursor(cursor: &str) -> Result<(&str, u64), ToolError> {
    let parts = cursor.split_once(':').filter(|(end, _)| is_object_id(end));
    // The shell computes with it.
    let parsed = parts.and_then(|(end, offset)| Some((end, offset.parse::<u32>().ok()?.into())));
    parsed.ok_or_else(|| {
        ToolError::invalid_argument("cursor must be the next_cursor of a previous result.")
    })
}

#[cfg(test)]
mod tests {
    use super::{parse_cursor, redacted_patch};

    #[test]
    fn bytes_of_binary_files_are_left_alone() {
        let token = format!("ghp_{}", "0123456789abcdefABCDEF".repeat(2));
        let line = |rest: &str| format!("z+{token}{rest}\n");
        let binary = line(&"$".repeat(64 - token.len()));
        let patch = format!("GIT binary patch\nliteral 52\n{binary}\n+a {token}\n{binary}");
        let shown = patch.replace(&format!("+a {token}"), "+a ***");
        assert_eq!(redacted_patch(&patch), shown);
        // Neither its length nor its letters are those of bytes.
        for other in [line("$"), format!("diff --git {token}\n")] {
            assert!(!redacted_patch(&other).contains(&token), "{other}");
        }
    }

    #[test]
    fn offset_of_a_cursor_is_bounded() {
        let end = "5".repeat(40);
        assert_eq!(parse_cursor(&format!("{end}:7")).unwrap().1, 7);
        assert!(parse_cursor(&format!("{end}:{}", u64::MAX)).is_err());
    }
}
