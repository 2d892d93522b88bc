//! `get_compose_logs`.

use futures_util::stream;
use upstream::text::truncate_list;
use upstream::time::Since;

use super::get_container_logs::line_filter;
use super::prelude::*;
use crate::compose;
use crate::engine::ContainerSummary;
use crate::engine::log::{self, LogQuery, Pattern};
use crate::unix_time;

/// Lines of each container without `tail`.
const DEFAULT_TAIL: u32 = 50;
/// Bytes of log in an answer, which contains it twice.
const MAX_BYTES: usize = 14_500;
/// Containers that are named because their log cannot be read.
const MAX_NAMED: usize = 10;
/// Logs that are read concurrently.
const MAX_CONCURRENT_READS: usize = 8;

/// Read the newest log lines of a compose project or of one of its services, in order of time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetComposeLogs {
    /// Its name.
    project: ObjectName,
    /// Only this one.
    service: Option<String>,
    /// Lines of each container (default 50).
    tail: Option<Bounded<1, 2000>>,
    /// Only newer than an age (`10m`) or an RFC 3339 time.
    since: Option<Since>,
    /// Only older, likewise.
    until: Option<Since>,
    /// Only lines that match this regular expression.
    #[schemars(with = "Option<String>")]
    grep: Option<Pattern>,
    /// Begin lines with their time.
    #[serde(default)]
    timestamps: bool,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct ComposeLog {
    project: String,
    /// Lines begin with their container.
    log: String,
    lines: usize,
    /// Older lines were left out.
    truncated: bool,
    /// Containers whose log cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for GetComposeLogs {
    const NAME: &'static str = "get_compose_logs";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = ComposeLog;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ComposeLog, ToolError> {
        let service = self.service.as_deref();
        let containers = compose::service_of(docker, &self.project, service).await?;
        let this = &self;
        let logs: Vec<_> = stream::iter(containers)
            .map(|container| async move {
                let log = this.read(docker, &container).await;
                (container.display_name().to_owned(), log)
            })
            .buffered(MAX_CONCURRENT_READS)
            .collect()
            .await;
        let (mut lines, mut unreadable, mut truncated) = (Vec::new(), Vec::new(), false);
        for (name, log) in logs {
            let Some(log) = log else {
                unreadable.push(name);
                continue;
            };
            truncated |= log.cut || log.overflowed || log.incomplete;
            for line in log.text.lines() {
                // Each begins with its time, which sorts correctly as text.
                let (time, text) = line.split_once(' ').unwrap_or(("", line));
                let shown = match self.timestamps {
                    true => format!("{time} {name} | {text}"),
                    false => format!("{name} | {text}"),
                };
                lines.push((time.to_owned(), shown));
            }
        }
        lines.sort_by(|a, b| a.0.cmp(&b.0));
        let lines: Vec<String> = lines.into_iter().map(|(_, shown)| shown).collect();
        let redactor = docker.redactor();
        let text = redactor.text(&lines.join("\n"));
        let shown = newest_lines(&text, MAX_BYTES);
        Ok(ComposeLog {
            project: self.project.to_string(),
            lines: shown.lines().count(),
            truncated: truncated || shown.len() < text.len(),
            log: shown.to_owned(),
            unreadable: truncate_list(unreadable, MAX_NAMED),
            redacted: redactor.hidden(),
        })
    }
}

impl GetComposeLogs {
    async fn read(&self, docker: &Docker, container: &ContainerSummary) -> Option<log::Log> {
        let id = ContainerName::new(&container.id).ok()?;
        let query = LogQuery {
            since: self.since.map_or(0, unix_time::from_argument),
            until: self.until.map_or(0, unix_time::from_argument),
            timestamps: true,
            ..LogQuery::newest(self.tail.map_or(DEFAULT_TAIL, Bounded::get))
        };
        // The list of containers does not contain `tty`.
        let engine = &docker.engine;
        let details = engine.try_inspect(&id).await.ok()?;
        let redactor = docker.redactor_of(&details);
        let filter = line_filter(redactor.clone(), self.grep.as_ref());
        let read = engine.read_log(&details, query, MAX_BYTES, engine.timeout(), filter);
        let mut log = read.await.ok()?;
        log.text = redactor.text(&log.text);
        Some(log)
    }
}
