//! `get_container_logs`.

use upstream::redact::LineRedactor;
use upstream::time::Since;

use super::prelude::*;
use crate::engine::EngineError;
use crate::engine::log::{self, LineFilter, Log, LogQuery, Pattern};
use crate::unix_time;

/// Lines without `tail`.
const DEFAULT_TAIL: u32 = 100;
/// Most bytes of log in an answer, which contains it as structure and as text.
const MAX_BYTES: usize = 14_500;

/// Read the newest lines of a container's log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainerLogs {
    /// Name or id.
    container: ContainerName,
    /// Lines (default 100).
    tail: Option<Bounded<1, 5000>>,
    /// Only newer than an age (`10m`, `1h30m`) or an RFC 3339 time.
    since: Option<Since>,
    /// Only older, likewise.
    until: Option<Since>,
    /// Only lines that match this regular expression.
    #[schemars(with = "Option<String>")]
    grep: Option<Pattern>,
    /// Begin lines with their time.
    #[serde(default)]
    timestamps: bool,
    /// Only this stream.
    #[serde(default)]
    stream: Stream,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Stream {
    Stdout,
    Stderr,
    #[default]
    Both,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct ContainerLog {
    container: String,
    /// Oldest line first.
    log: String,
    lines: usize,
    /// Lines were left out, or not searched.
    truncated: bool,
    note: Option<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for GetContainerLogs {
    const NAME: &'static str = "get_container_logs";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = ContainerLog;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ContainerLog, ToolError> {
        let engine = &docker.engine;
        let details = docker.container(&self.container).await?;
        if details.host_config.log_config.driver == "none" {
            return Err(unreadable(&self.container));
        }
        let (query, tty, limit) = (self.query(), details.config.tty, engine.timeout());
        let filter = line_filter(docker.redactor_of(&details), self.grep.as_ref());
        let read = engine.read_log(&details, query, MAX_BYTES, limit, filter);
        let log = match read.await {
            Ok(log) => log,
            Err(failure) => return Err(explain(docker, failure, &self.container).await),
        };
        let redactor = docker.redactor_of(&details);
        let text = redactor.text(&log.text);
        let shown = newest_lines(&text, MAX_BYTES);
        let too_long = log.overflowed || shown.len() < text.len();
        Ok(ContainerLog {
            container: details.display_name().to_owned(),
            log: shown.to_owned(),
            lines: shown.lines().count(),
            truncated: log.cut || too_long || log.incomplete || log.is_partly_searched(),
            note: self.note(&log, too_long, tty),
            redacted: redactor.hidden(),
        })
    }
}

impl GetContainerLogs {
    /// The newest lines of a container.
    pub(crate) fn new(container: ContainerName) -> Self {
        Self {
            container,
            tail: None,
            since: None,
            until: None,
            grep: None,
            timestamps: false,
            stream: Stream::Both,
        }
    }

    fn query(&self) -> LogQuery {
        LogQuery {
            stdout: self.stream != Stream::Stderr,
            stderr: self.stream != Stream::Stdout,
            since: self.since.map_or(0, unix_time::from_argument),
            until: self.until.map_or(0, unix_time::from_argument),
            tail: self.tail.map_or(DEFAULT_TAIL, Bounded::get),
            timestamps: self.timestamps,
            ..LogQuery::default()
        }
    }

    fn note(&self, log: &Log, too_long: bool, tty: bool) -> Option<String> {
        let text = if log.incomplete {
            let searched = match log.searched {
                0 => String::new(),
                lines => format!(" Searched: the first {lines} lines of the period."),
            };
            format!(
                "The engine was too slow to send it all, so the newest lines are missing: ask for a \
                 smaller `tail` or a later `since`.{searched}"
            )
        } else if too_long {
            format!(
                "Older lines do not fit in {} KB: narrow it down with `since`, `until`, `grep` or \
                 `stream`.",
                MAX_BYTES / 1000
            )
        } else if log.cut {
            "There are older lines: ask for more with `tail`.".to_owned()
        } else if log.is_partly_searched() {
            format!(
                "Only the newest {} lines were searched: pass `since` and `until` for older ones.",
                log.searched
            )
        } else if self.grep.is_some() && log.text.is_empty() {
            format!("None of the {} lines matches.", log.searched)
        } else if self.stream != Stream::Both && log.text.is_empty() && !tty {
            format!(
                "It wrote nothing to this stream, as far as the newest {} lines of both show.",
                log::MIN_RECORDS_FOR_ONE_STREAM
            )
        } else if tty && self.stream == Stream::Stderr {
            "The container has a terminal, so its stderr is part of stdout.".to_owned()
        } else {
            return None;
        };
        Some(text)
    }
}

/// A filter of the lines that match as they are shown: a match of the line as written would reveal a redacted
/// value, one character after the other.
pub(super) fn line_filter<'a>(
    redactor: Redactor,
    pattern: Option<&'a Pattern>,
) -> Option<LineFilter<'a>> {
    let pattern = pattern?;
    let mut lines = LineRedactor::new(redactor);
    Some(Box::new(move |_, line| {
        let shown = lines.line(line);
        shown.is_some_and(|shown| pattern.is_match(&shown))
    }))
}

/// The tool error of reading the log of `container`.
pub(super) async fn explain(
    docker: &Docker,
    failure: EngineError,
    container: &ContainerName,
) -> ToolError {
    if failure.is_unreadable_log() {
        return unreadable(container);
    }
    let object = (ObjectKind::Container, container.as_str());
    docker.explain_about(failure, object, None).await
}

fn unreadable(container: &ContainerName) -> ToolError {
    conflict(format!(
        "The log of `{container}` cannot be read: its log driver keeps nothing that the engine \
         could read back. Recreate it with the log driver `json-file` or `local`."
    ))
}
