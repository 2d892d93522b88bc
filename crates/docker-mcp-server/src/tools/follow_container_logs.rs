//! `follow_container_logs`.

use tokio::time::Instant;
use upstream::redact::LineRedactor;

use super::get_container_logs::explain;
use super::prelude::*;
use crate::engine::log::{FrameDecoder, LogQuery, Pattern, TailBuffer};

/// Seconds without `seconds`.
const DEFAULT_SECONDS: u32 = 20;
/// Lines and bytes in an answer.
const MAX_LINES: usize = 500;
const MAX_BYTES: usize = 14_500;

/// Read what a container logs from now on, line by line as progress, until a text appears.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowContainerLogs {
    /// Name or id.
    container: ContainerName,
    /// Stop at the first line that matches this regular expression.
    #[schemars(with = "Option<String>")]
    until_match: Option<Pattern>,
    /// Default 20; the call waits as long.
    seconds: Option<Bounded<1, 86_400>>,
    /// Older lines to begin with.
    tail: Option<Bounded<0, 500>>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Followed {
    container: String,
    /// The newest lines.
    log: String,
    lines: usize,
    /// The first line that matched.
    matched: Option<String>,
    /// `matched`, `time` or `ended` with the container.
    stopped_by: &'static str,
    /// Older lines were left out.
    truncated: bool,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for FollowContainerLogs {
    const NAME: &'static str = "follow_container_logs";
    const EFFECT: Effect = Effect::ReadOnly;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Followed;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Followed, ToolError> {
        let details = docker.container(&self.container).await?;
        let query = LogQuery {
            follow: true,
            ..LogQuery::newest(self.tail.map_or(0, Bounded::get))
        };
        let mut reply = docker.engine.logs(&details.container_id()?, &query);
        let seconds = self.seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let (begin, limit) = (Instant::now(), Duration::from_secs(seconds.into()));
        call.extend_timeout(limit);
        let mut decoder = FrameDecoder::new(details.config.tty);
        let mut tail = TailBuffer::new(MAX_LINES, MAX_BYTES, false);
        let mut lines = LineRedactor::new(docker.redactor_of(&details));
        let mut matched = None;
        let stopped_by = loop {
            let chunk = tokio::select! {
                biased;
                () = call.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep_until(begin + limit) => break "time",
                chunk = reply.next() => chunk,
            };
            let Some(chunk) = chunk else { break "ended" };
            let pushed = chunk.and_then(|chunk| decoder.push(&chunk, |part| tail.push(part)));
            if let Err(failure) = pushed {
                return Err(explain(docker, failure, &self.container).await);
            }
            for line in tail.take_new() {
                let Some(line) = lines.line(&line) else {
                    continue;
                };
                call.progress(begin.elapsed().as_secs_f64(), Some(seconds.into()), &line);
                let matches = |pattern: &Pattern| pattern.is_match(&line);
                if matched.is_none() && self.until_match.as_ref().is_some_and(matches) {
                    matched = Some(line);
                }
            }
            if matched.is_some() {
                break "matched";
            }
        };
        let log = tail.finish();
        let redactor = docker.redactor_of(&details);
        let text = redactor.text(&log.text);
        let shown = newest_lines(&text, MAX_BYTES);
        Ok(Followed {
            container: details.display_name().to_owned(),
            lines: shown.lines().count(),
            truncated: log.cut || log.overflowed || shown.len() < text.len(),
            log: shown.to_owned(),
            matched,
            stopped_by,
            redacted: redactor.hidden(),
        })
    }
}
