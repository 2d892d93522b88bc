//! Tools that read a task: its state and result, its changes, files and events.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use tokio::time::Instant;
use upstream::redact::redacted_part;
use upstream::text::fitting;

use crate::OpenHands;
use crate::api::{AgentServer, ApiResult, FileName, TaskId, event_kind, summary};
use crate::git::{ChangesQuery, Part, Window, is_object_id};
use crate::task::{MAX_RESULT_BYTES, MAX_WHOLE_RESULT_BYTES, Report, ShortReport, TaskSnapshot};
use crate::workspace::read_changes;

/// Returns the state of a task: queued, running, finished, failed (and why), waiting for a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskStatus {
    /// From run_task.
    task_id: TaskId,
}

impl Tool for GetTaskStatus {
    const NAME: &'static str = "get_task_status";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = ShortReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<ShortReport, ToolError> {
        let id = self.task_id;
        match read_task(service, id, call).await {
            Ok((server, task)) => {
                let mut report = Report::from_snapshot(&task);
                report
                    .warnings
                    .extend(server.known_version().await?.warning());
                Ok(ShortReport(report))
            }
            Err(failure) => Report::from_failure(id, failure).map(ShortReport),
        }
    }
}

/// Reads a task. One that waits for its repository or a slot begins as soon as it can.
async fn read_task(
    service: &OpenHands,
    id: TaskId,
    call: &Call,
) -> ApiResult<(AgentServer, TaskSnapshot)> {
    let server = service.task_server(id, call).await?;
    let task = TaskSnapshot::read(&server, id, None).await?;
    if task.needs_run {
        service.runner.begin_later(id);
    }
    Ok((server, task))
}

/// The wait for the verify command.
const CHECK_WAIT: Duration = Duration::from_secs(10);

/// Returns the last message of a task's agent, the output of its last command and the files it
/// changed, also while it is running or after it failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskResult {
    /// From run_task.
    pub(crate) task_id: TaskId,
    /// Default result.
    part: Option<ResultPart>,
    /// Previous next_offset.
    offset: Option<u32>,
    /// For a reader without tokens.
    #[serde(skip)]
    is_resource: bool,
}

/// A text that is returned in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResultPart {
    Result,
    Output,
    Confirmation,
}

impl GetTaskResult {
    /// A call for the content of a resource.
    pub(crate) fn of_resource(task_id: TaskId) -> Self {
        Self {
            task_id,
            part: None,
            offset: None,
            is_resource: true,
        }
    }

    /// The report with one part of one text.
    async fn add_part(
        &self,
        report: &mut Report,
        server: &AgentServer,
        task: &TaskSnapshot,
    ) -> Result<(), ToolError> {
        let offset = self.offset.unwrap_or_default().into();
        let part = self.part.unwrap_or(ResultPart::Result);
        report.confirmation = None;
        if part == ResultPart::Confirmation {
            let pending = task.pending.as_ref().ok_or_else(|| {
                ToolError::conflict(
                    "The task is not waiting for a permission. get_task_status shows what it does.",
                )
            })?;
            report.confirmation = Some(pending.at_offset(offset));
            return Ok(());
        }
        let (whole, shown) = match part {
            ResultPart::Output => (task.read_output(server).await?.0, &mut report.last_output),
            _ => (task.read_message(server).await?, &mut report.result),
        };
        let (text, next) = crate::task::part(&whole, offset);
        *shown = Some(text);
        report.next_offset = next;
        Ok(())
    }
}

impl Tool for GetTaskResult {
    const NAME: &'static str = "get_task_result";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let (server, task) = match read_task(service, id, call).await {
            Ok(read) => read,
            Err(failure) => return Report::from_failure(id, failure),
        };
        let mut report = Report::from_snapshot(&task);
        if self.part.is_some() || self.offset.is_some() {
            self.add_part(&mut report, &server, &task).await?;
            return Ok(report);
        }
        let max_result = match self.is_resource {
            true => MAX_WHOLE_RESULT_BYTES,
            false => MAX_RESULT_BYTES,
        };
        report.add_results(&server, &task, max_result).await?;
        let until = Instant::now() + CHECK_WAIT;
        report.add_check(service, &server, &task, until).await?;
        Ok(report)
    }
}

/// Bytes of a diff. With the list of files, the answer stays under 2,000 tokens.
const DEFAULT_DIFF_BYTES: u32 = 5_000;
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

#[skip_serializing_none]
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
        let limit = self.max_bytes.map_or(DEFAULT_DIFF_BYTES, Bounded::get) as usize;
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
        let (diff, next_offset) = changes.diff_text();
        let skipped = self.skip_files.unwrap_or_default() as usize;
        Ok(TaskChanges {
            task_id,
            changed_files: changes.lines(skipped, MAX_LIST_BYTES),
            files: changes.count,
            diff,
            size: changes.size,
            next_offset,
            warnings: changes.warnings,
        })
    }
}

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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct PatchPart {
    task_id: TaskId,
    /// Part of the patch.
    patch: String,
    /// `base64` if it is not UTF-8.
    encoding: Option<&'static str>,
    /// Bytes of the whole patch.
    size: u64,
    /// For the rest, of the same moment.
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
        let (part, next) = changes.part();
        let text = String::from_utf8_lossy(part.bytes());
        let redacted = redacted_patch(&part, &text);
        let (is_text, is_redacted) = (matches!(text, Cow::Borrowed(_)), redacted != text);
        let (patch, encoding) = match is_text || is_redacted {
            true => (redacted, None),
            false => (STANDARD.encode(part.bytes()), Some("base64")),
        };
        if is_redacted {
            changes.warnings.push(PATCH_REDACTED);
            changes.warnings.extend((!is_text).then_some(LOSSY));
        }
        changes.repositories.retain(|other| other != repository);
        Ok(PatchPart {
            task_id,
            patch,
            encoding,
            size: changes.size,
            next_cursor: next.map(|next| format!("{}:{next}", changes.content)),
            repositories: changes.repositories,
            warnings: changes.warnings,
        })
    }
}

const PATCH_REDACTED: &str =
    "Secrets in the patch were replaced with ***: git refuses it, or writes *** in their place.";

/// Redacts a patch, but for the bytes of binary files: they are compressed, so a secret is not visible in them, and by
/// chance they may look like one.
fn redacted_patch(part: &Part<'_>, patch: &str) -> String {
    let (mut redacted, mut text) = (String::with_capacity(patch.len()), String::new());
    let (mut before, after) = part.context();
    for line in patch.split_inclusive('\n') {
        if is_binary(line) {
            redacted.push_str(&redacted_part(&before, &std::mem::take(&mut text), ""));
            redacted.push_str(line);
            before = Cow::default();
        } else {
            text.push_str(line);
        }
    }
    redacted.push_str(&redacted_part(&before, &text, &after));
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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct FilePart {
    task_id: TaskId,
    text: Option<String>,
    /// A part that is not text.
    base64: Option<String>,
    /// Bytes of the whole file.
    size: u64,
    /// Start of the rest.
    next_offset: Option<u64>,
    /// Doubts about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

const REDACTED: &str = "Secrets in the part were replaced with ***.";
const LOSSY: &str = "Bytes that are not UTF-8 were replaced with \u{fffd}.";

impl Tool for GetTaskFile {
    const NAME: &'static str = "get_task_file";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = FilePart;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<FilePart, ToolError> {
        let task_id = self.task_id;
        let length = u64::from(self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get));
        let window = Window::new(self.offset.unwrap_or(0).into(), length);
        // Distinguishes a missing task from a missing file.
        let server = service.task_server(task_id, call).await?;
        server.conversation(task_id).await?;
        let name = self.file.as_str();
        let file = server.workspace_file(task_id, name, window.start, window.length);
        let file = file.await.map_err(|failure| {
            if failure.is_bad_request() {
                ToolError::forbidden(
                    "The file is a link that leads out of the task's directory, so it is not shown.",
                )
            } else if failure.is_directory() {
                ToolError::invalid_argument(
                    "`file` is a directory: name a file in it. get_task_changes lists what the agent made.",
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
        let part = window.part(&file.bytes);
        let lines = part.lines(file.size);
        let text = text(lines.bytes());
        let (lossy, part) = match text {
            Some(_) => (None, lines),
            None => (redacted_lossy(&part), part),
        };
        let end = part.end();
        Ok(FilePart {
            task_id,
            size: file.size,
            next_offset: (end < file.size && !part.bytes().is_empty()).then_some(end),
            base64: (text.is_none() && lossy.is_none()).then(|| STANDARD.encode(part.bytes())),
            warnings: match lossy {
                Some(_) => vec![REDACTED, LOSSY],
                None => vec![],
            },
            text: text.map(|text| part.redacted(text).into_owned()).or(lossy),
        })
    }
}

/// The bytes as text; `None` if they are no text.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| !text.contains('\0'))
}

/// A part of a text in another encoding, if it has secrets, with these redacted; `None` if there is nothing to redact or
/// the part is no text.
fn redacted_lossy(part: &Part<'_>) -> Option<String> {
    if part.bytes().contains(&0) {
        return None;
    }
    let lossy = String::from_utf8_lossy(part.bytes());
    let redacted = part.redacted(&lossy);
    (redacted != lossy).then(|| redacted.into_owned())
}

const DEFAULT_LIMIT: u32 = 30;
/// Bytes of an answer, which stays under 2,000 tokens.
const MAX_BYTES: usize = 6_500;

/// Returns the events of a task, oldest first, one line each.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskEvents {
    /// From run_task.
    task_id: TaskId,
    /// Previous next_since: only later events.
    since: Option<String>,
    /// Only these; default all.
    #[serde(default)]
    kinds: Vec<EventKind>,
    /// Default 30.
    limit: Option<Bounded<1, 90>>,
}

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EventKind {
    /// Action of the agent.
    Action,
    /// Its result.
    Output,
    /// User or agent.
    Message,
    /// Failure.
    Error,
    /// Stopped, or an action was refused.
    Stop,
}

/// The kinds, with the agent server's names of their events. The system prompt is left out: 20 KB.
const KINDS: [(EventKind, &str); 8] = [
    (EventKind::Action, event_kind::ACTION),
    (EventKind::Output, event_kind::OBSERVATION),
    (EventKind::Message, event_kind::MESSAGE),
    (EventKind::Error, event_kind::RUN_ERROR),
    (EventKind::Error, event_kind::TOOL_ERROR),
    (EventKind::Stop, event_kind::PAUSED),
    (EventKind::Stop, event_kind::INTERRUPT),
    (EventKind::Stop, event_kind::REJECTION),
];

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct EventPage {
    task_id: TaskId,
    events: Vec<EventLine>,
    /// There are more.
    more: bool,
    /// Pass it as since for later events.
    next_since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct EventLine {
    /// Agent server's local time.
    time: String,
    kind: EventKind,
    text: String,
    /// The cursor after this event.
    #[serde(skip)]
    cursor: String,
}

impl Tool for GetTaskEvents {
    const NAME: &'static str = "get_task_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = EventPage;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<EventPage, ToolError> {
        let id = self.task_id;
        let since = self.since.as_deref().map(parse_since).transpose()?;
        let limit = self.limit.map_or(DEFAULT_LIMIT, Bounded::get) as usize;
        let from = since.map(|(time, _)| time);
        let server = service.task_server(id, call).await?;
        // One more for the event of `since`, and one more to learn whether there are more.
        let fetched = (limit + 2).min(100).to_string();
        let mut found = Vec::new();
        for (kind, name) in KINDS {
            if self.kinds.is_empty() || self.kinds.contains(&kind) {
                let events = server.events_since(id, name, from, &fetched).await?;
                found.extend(events.into_iter().map(|event| (kind, event)));
            }
        }
        found.sort_by(|(_, a), (_, b)| a.timestamp.cmp(&b.timestamp));
        found.retain(|(_, event)| since.is_none_or(|(_, id)| event.id != id));
        let count = found.len();
        let lines = found.into_iter().take(limit);
        let lines = lines.map(|(kind, event)| EventLine {
            time: event.timestamp.chars().take(19).collect(),
            kind,
            text: summary(&event),
            cursor: format!("{}/{}", event.timestamp, event.id),
        });
        let events = fitting(lines.collect(), MAX_BYTES).rows;
        let last = events.last().map(|last| last.cursor.clone());
        Ok(EventPage {
            task_id: id,
            more: events.len() < count,
            next_since: last.or(self.since),
            events,
        })
    }
}

impl GetTaskEvents {
    /// A call for all events of a task, as far as they fit into an answer.
    pub(crate) fn all(task_id: TaskId) -> Self {
        Self {
            task_id,
            since: None,
            kinds: Vec::new(),
            limit: None,
        }
    }
}

/// The time and the id of the last event that the caller has read.
fn parse_since(text: &str) -> Result<(&str, &str), ToolError> {
    let is_time = |c: char| c.is_ascii_digit() || "-:.TZ+".contains(c);
    let is_valid = |time: &str| (1..40).contains(&time.len()) && time.chars().all(is_time);
    let parts = text.split_once('/').filter(|(time, _)| is_valid(time));
    parts.ok_or_else(|| {
        ToolError::invalid_argument("since must be the next_since of a previous result.")
    })
}

#[cfg(test)]
mod tests {
    use super::{Window, parse_cursor, redacted_lossy, redacted_patch};

    #[test]
    fn bytes_of_binary_files_are_left_alone() {
        let token = format!("ghp_{}", "0123456789abcdefABCDEF".repeat(2));
        let line = |rest: &str| format!("z+{token}{rest}\n");
        let binary = line(&"$".repeat(64 - token.len()));
        let patch = format!("GIT binary patch\nliteral 52\n{binary}\n+a {token}\n{binary}");
        let shown = patch.replace(&format!("+a {token}"), "+a ***");
        let redacted = |patch: &str| {
            let part = Window::new(0, 1_000).part(patch.as_bytes());
            redacted_patch(&part, patch)
        };
        assert_eq!(redacted(&patch), shown);
        // Neither its length nor its letters are those of bytes.
        for other in [line("$"), format!("diff --git {token}\n")] {
            assert!(!redacted(&other).contains(&token), "{other}");
        }
    }

    #[test]
    fn offset_of_a_cursor_is_bounded() {
        let end = "5".repeat(40);
        assert_eq!(parse_cursor(&format!("{end}:7")).unwrap().1, 7);
        assert!(parse_cursor(&format!("{end}:{}", u64::MAX)).is_err());
    }

    #[test]
    fn secret_in_another_encoding_is_redacted() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let file = [b"caf\xe9 ", token.as_bytes()].concat();
        let redacted = |file: &[u8]| redacted_lossy(&Window::new(0, 100).part(file));
        assert_eq!(redacted(&file).unwrap(), "caf\u{fffd} ***");
        assert_eq!(redacted(b"caf\xe9"), None);
        assert_eq!(redacted(&[&file[..], b"\0"].concat()), None);
    }
}
