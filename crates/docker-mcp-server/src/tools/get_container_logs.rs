//! `get_container_logs`.

use futures_util::stream::{self, FuturesUnordered};
use parking_lot::Mutex;
use tokio::time::Instant;
use upstream::redact::LineRedactor;
use upstream::time::{Since, parse_timestamp};

use super::prelude::*;
use crate::compose;
use crate::engine::log::{self, Line, LineReader, Log, LogQuery, Pattern, Window, shorten, timed};
use crate::engine::{Event, EventStream};
use crate::unix_time;

const DEFAULT_TAIL: u32 = 100;
/// Seconds without `follow_seconds`, if `until_match` is given.
const DEFAULT_SECONDS: u32 = 20;
/// Most bytes of log in an answer, which contains it as structure and as text.
const MAX_BYTES: usize = 14_500;
/// Containers that are named because their log cannot be read.
const MAX_NAMED: usize = 10;
const MAX_CONCURRENT_READS: usize = 8;
/// The time for a container that has ended to run again: it may be restarted.
const RESTART_TIME: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Read the newest log lines of a container or a compose project, or follow them until a text appears.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainerLogs {
    /// Name or id.
    container: Option<ContainerName>,
    /// Reads a compose project instead.
    project: Option<ObjectName>,
    /// Reads only this service.
    service: Option<String>,
    /// Shows so many lines of each; default 100, 0 if it only follows.
    tail: Option<Bounded<0, 5000>>,
    /// Shows lines since an age (`1h30m`) or RFC 3339 time.
    since: Option<Since>,
    /// Shows lines before this.
    until: Option<Since>,
    /// Shows lines matching this regex.
    #[schemars(with = "Option<String>")]
    grep: Option<Pattern>,
    /// Follows so long, over restarts.
    follow_seconds: Option<Bounded<1, 86_400>>,
    /// Follows (default 20 s) until this matches one of `tail` or a new line.
    #[schemars(with = "Option<String>")]
    until_match: Option<Pattern>,
    /// Begins lines with times.
    #[serde(default)]
    timestamps: bool,
    /// Shows only this stream.
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
    container: Option<String>,
    project: Option<String>,
    /// Oldest line first; of a project, lines begin with their container.
    log: String,
    lines: usize,
    /// The first line that matched `until_match`.
    matched: Option<String>,
    /// Of following: `matched`, `time`, or `ended` with the containers.
    stopped_by: Option<&'static str>,
    /// Lines were left out, or not searched.
    truncated: bool,
    note: Option<String>,
    /// Containers whose log cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

/// Why following stopped, and the line that matched.
type End = (Option<&'static str>, Option<String>);

/// A container whose log is followed, and its lines.
type Seen = (ContainerDetails, Window);

/// A container and what was read of its log.
struct Source {
    details: ContainerDetails,
    log: Result<Log, ToolError>,
}

impl Tool for GetContainerLogs {
    const NAME: &'static str = "get_container_logs";
    const EFFECT: Effect = Effect::ReadOnly;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = ContainerLog;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ContainerLog, ToolError> {
        // Those that are started from now on.
        let starts = docker.engine.events(unix_time::now() * 1_000_000_000);
        let (containers, unreadable) = self.containers(docker).await?;
        let (sources, end) = if self.follows() {
            self.follow(docker, call, containers, starts).await?
        } else {
            let reads = stream::iter(containers).map(|details| self.read(docker, details));
            let reads = reads.buffered(MAX_CONCURRENT_READS).collect();
            (reads.await, (None, None))
        };
        self.answer(docker, sources, unreadable, end)
    }
}

impl GetContainerLogs {
    /// The containers whose logs are read, and the names of those that are not described.
    async fn containers(
        &self,
        docker: &Docker,
    ) -> Result<(Vec<ContainerDetails>, Vec<String>), ToolError> {
        match (&self.container, &self.project) {
            (Some(container), None) if self.service.is_none() => {
                Ok((vec![docker.container(container).await?], Vec::new()))
            }
            (None, Some(project)) => {
                let service = self.service.as_deref();
                let listed = compose::service_of(docker, project, service).await?;
                let inspected = stream::iter(listed).map(|container| async move {
                    let name = container.display_name().to_owned();
                    let inspected = docker.engine.try_inspect(&container.id).await;
                    inspected.map_err(|_| name)
                });
                let inspected = inspected.buffered(MAX_CONCURRENT_READS);
                let inspected: Vec<Result<_, _>> = inspected.collect().await;
                let (found, failed): (Vec<_>, Vec<_>) =
                    inspected.into_iter().partition(Result::is_ok);
                Ok((
                    found.into_iter().flatten().collect(),
                    failed.into_iter().filter_map(Result::err).collect(),
                ))
            }
            _ => Err(ToolError::invalid_argument(
                "Pass either `container`, or `project` and perhaps `service`.",
            )),
        }
    }

    fn follows(&self) -> bool {
        self.follow_seconds.is_some() || self.until_match.is_some()
    }

    fn query(&self) -> LogQuery {
        let follow = self.follows();
        // A text that is waited for may be there already.
        let is_new = follow && self.since.is_none() && self.until_match.is_none();
        let default = if is_new { 0 } else { DEFAULT_TAIL };
        LogQuery {
            stdout: self.stream != Stream::Stderr,
            stderr: self.stream != Stream::Stdout,
            since: (self.since.map_or(0, unix_time::from_argument), 0),
            // Zero is no end.
            until: self
                .until
                .map_or(0, |until| unix_time::from_argument(until).max(1)),
            tail: self.tail.map_or(default, Bounded::get),
            // The lines of several containers are put in their order, and a log is read on where it ended.
            timestamps: self.timestamps || self.project.is_some() || follow,
            follow,
        }
    }

    async fn read(&self, docker: &Docker, details: ContainerDetails) -> Source {
        let (engine, redactor) = (&docker.engine, docker.redactor_of(&details));
        let filter = self.grep.as_ref().map(|pattern| {
            let mut lines = LineRedactor::new(redactor.clone());
            let filter = move |line: &mut Line| {
                let shown = sift(&mut lines, line);
                shown.is_some_and(|shown| pattern.is_match(&shown))
            };
            Box::new(filter) as log::LineFilter<'_>
        });
        let limit = engine.timeout();
        let log = if details.host_config.log_config.driver == "none" {
            Err(unreadable(details.display_name()))
        } else {
            match engine
                .read_log(&details, self.query(), MAX_BYTES, limit, redactor, filter)
                .await
            {
                Ok(log) => Ok(log),
                Err(failure) => Err(explain(docker, failure, details.display_name()).await),
            }
        };
        Source { details, log }
    }

    /// Follows logs, with each line as progress: those of the containers, and of others of the project that are started
    /// meanwhile. Returns them, why it stopped, and the line that matched.
    async fn follow(
        &self,
        docker: &Docker,
        call: &Call,
        containers: Vec<ContainerDetails>,
        mut starts: EventStream,
    ) -> Result<(Vec<Source>, End), ToolError> {
        let seconds = self.follow_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let limit = Duration::from_secs(seconds.into());
        call.extend_timeout(limit);
        let begin = Instant::now();
        let report = |line: &str| {
            call.progress(begin.elapsed().as_secs_f64(), Some(seconds.into()), line);
        };
        let (seen, query) = (Mutex::default(), self.query());
        let mut may_start = self.project.is_some();
        let mut followed: BTreeSet<ContainerName> =
            containers.iter().map(|at| at.id.clone()).collect();
        let first = followed.clone();
        let (stopped_by, matched) = {
            let watch = |at: ContainerDetails, query| {
                let id = at.id.clone();
                let log = self.watch(docker, at, query, &seen, &report);
                async move { (id, log.await) }
            };
            let logs = containers.into_iter().map(|at| watch(at, query));
            let mut logs: FuturesUnordered<_> = logs.collect();
            let ended = async {
                loop {
                    let event = tokio::select! {
                        // A container that starts again has ended before.
                        biased;
                        ended = logs.next() => match ended {
                            None => return Ok::<_, ToolError>(("ended", None)),
                            Some((_, Ok(Some(matched)))) => return Ok(("matched", Some(matched))),
                            Some((id, Err(error))) if first.contains(&id) => return Err(error),
                            // One that came later takes nothing from the others.
                            Some((id, Ok(None) | Err(_))) => {
                                followed.remove(&id);
                                continue;
                            }
                        },
                        event = starts.next(), if may_start => event,
                    };
                    let Ok(Some(event)) = event else {
                        may_start = false;
                        continue;
                    };
                    if let Some(started) = self.started(docker, &event).await
                        && followed.insert(started.id.clone())
                    {
                        let query = LogQuery {
                            // Its first lines may be older than the event.
                            since: (event.time - 1, 0),
                            tail: LogQuery::ALL,
                            ..query
                        };
                        logs.push(watch(started, query));
                    }
                }
            };
            tokio::select! {
                biased;
                () = call.cancelled() => return Err(cancelled()),
                ended = tokio::time::timeout(limit, ended) => ended.unwrap_or(Ok(("time", None)))?,
            }
        };
        let sources = seen.into_inner().into_iter();
        let sources = sources.map(|(details, window): Seen| Source {
            log: Ok(window.into_log(docker.redactor_of(&details))),
            details,
        });
        Ok((sources.collect(), (Some(stopped_by), matched)))
    }

    /// The container of the project that an event starts; `None` if it is another event.
    async fn started(&self, docker: &Docker, event: &Event) -> Option<ContainerDetails> {
        let labels = event.attributes();
        let is_wanted = event.kind == "container"
            && event.action == "start"
            && compose::project_of(labels)? == self.project.as_ref()?.as_str()
            && (self.service.is_none() || self.service.as_ref() == compose::service_name(labels))
            && !compose::is_one_off(labels)
            && docker.may_see_event(event);
        let id = ContainerName::new(event.id()).ok().filter(|_| is_wanted)?;
        docker.engine.try_inspect(&id).await.ok()
    }

    /// Follows one log, also over restarts of its container. Returns the line that matched, or `None` once the container
    /// has ended.
    async fn watch(
        &self,
        docker: &Docker,
        details: ContainerDetails,
        mut query: LogQuery,
        seen: &Mutex<Vec<Seen>>,
        report: &(impl Fn(&str) + Sync),
    ) -> Result<Option<String>, ToolError> {
        let (id, name) = (&details.id, details.display_name());
        let mut lines = LineRedactor::new(docker.redactor_of(&details));
        let at = {
            let mut seen = seen.lock();
            seen.push((details.clone(), Window::new(usize::MAX, MAX_BYTES)));
            seen.len() - 1
        };
        // A text that is waited for is one of this run, unless the call says from when.
        let is_of_run = self.until_match.is_some() && self.since.is_none() && self.tail.is_none();
        let before = parse_timestamp(&details.state.finished_at);
        if is_of_run
            && details.state.runs()
            && let Some(before) = before.filter(|before| before.as_second() > 0)
        {
            query.since = log::after(before);
        }
        let mut last = None;
        loop {
            let mut reply = docker.engine.logs(id, &query);
            let mut reader = LineReader::new(details.config.tty, true);
            let mut has_ended = false;
            while !has_ended {
                let mut new = Vec::new();
                let mut add = |line| new.push(line);
                match reply.next().await {
                    Some(chunk) => {
                        let read = chunk.and_then(|chunk| reader.push(&chunk, &mut add));
                        if let Err(failure) = read {
                            return Err(explain(docker, failure, name).await);
                        }
                    }
                    None => {
                        has_ended = true;
                        reader.finish(&mut add);
                    }
                }
                for line in new {
                    last = parse_timestamp(&line.time).or(last);
                    let mut keep = |line| seen.lock()[at].1.push(line);
                    let matched = self.see(line, name, &mut lines, &mut keep, report);
                    if matched.is_some() {
                        return Ok(matched);
                    }
                }
            }
            let again = match details.state.is_alive() {
                true => runs_again(docker, id).await,
                false => None,
            };
            let Some(now) = again else {
                return Ok(None);
            };
            // The lines after the last one, or all of this run.
            let since = last.or_else(|| parse_timestamp(&now.state.finished_at));
            query.since = since.map_or((0, 0), log::after);
            query.tail = LogQuery::ALL;
        }
    }

    /// Keeps and reports a line of a log that is followed. Returns it if it is the one that ends the call.
    fn see(
        &self,
        mut line: Line,
        container: &str,
        lines: &mut LineRedactor,
        keep: &mut impl FnMut(Line),
        report: &impl Fn(&str),
    ) -> Option<String> {
        let grep = self.grep.as_ref();
        let Some(text) = sift(lines, &mut line) else {
            // It is hidden as a part of all that is shown.
            if grep.is_none() {
                keep(line);
            }
            return None;
        };
        let shown = shorten(&text, self.until_match.as_ref());
        if grep.is_none_or(|grep| grep.is_match(&text)) {
            keep(line);
            match self.project {
                Some(_) => report(&format!("{container} | {shown}")),
                None => report(&shown),
            }
        }
        let is_end = self.until_match.as_ref();
        is_end
            .is_some_and(|pattern| pattern.is_match(&text))
            .then_some(shown)
    }

    fn answer(
        &self,
        docker: &Docker,
        sources: Vec<Source>,
        mut failed: Vec<String>,
        (stopped_by, matched): End,
    ) -> Result<ContainerLog, ToolError> {
        let (mut all, mut lines) = (Log::default(), Vec::new());
        let (mut hidden, mut tty, mut container) = (0, false, None);
        let has_times = self.query().timestamps;
        for Source { details, log } in sources {
            let name = details.display_name();
            let log = match log {
                Ok(log) => log,
                Err(error) if self.container.is_some() => return Err(error),
                Err(_) => {
                    failed.push(name.to_owned());
                    continue;
                }
            };
            let redactor = docker.redactor_of(&details);
            let text = shorten(&redactor.text(&log.text()), self.grep.as_ref());
            hidden += log.hidden + redactor.hidden().unwrap_or(0);
            for line in text.lines() {
                // Each begins with its time, which sorts correctly as text.
                let (time, text) = match has_times {
                    true => timed(line),
                    false => ("", line),
                };
                let shown_time = if self.timestamps { time } else { "" };
                let shown = match &self.project {
                    Some(_) => format!("{shown_time}{name} | {text}"),
                    None => format!("{shown_time}{text}"),
                };
                lines.push((time.to_owned(), shown));
            }
            all.cut |= log.cut;
            all.overflowed |= log.overflowed;
            all.incomplete |= log.incomplete;
            all.searched += log.searched;
            all.is_partly_searched |= log.is_partly_searched;
            tty |= details.config.tty;
            container = self.container.is_some().then(|| name.to_owned());
        }
        if self.project.is_some() {
            lines.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let lines: Vec<String> = lines.into_iter().map(|(_, shown)| shown).collect();
        let text = lines.join("\n");
        let shown = newest_lines(&text, MAX_BYTES);
        all.overflowed |= shown.len() < text.len();
        Ok(ContainerLog {
            container,
            project: self.project.as_ref().map(ToString::to_string),
            log: shown.to_owned(),
            lines: shown.lines().count(),
            matched,
            stopped_by,
            truncated: all.cut || all.overflowed || all.incomplete || all.is_partly_searched,
            note: self.note(&all, shown.is_empty(), tty),
            unreadable: truncate_list(failed, MAX_NAMED),
            redacted: Some(hidden).filter(|hidden| *hidden > 0),
        })
    }

    fn note(&self, log: &Log, is_empty: bool, tty: bool) -> Option<String> {
        let text = if log.incomplete {
            let searched = match log.searched {
                0 => String::new(),
                lines => format!(" Searched: the first {lines} lines of the period."),
            };
            format!(
                "The engine was too slow to send it all, so the newest lines are missing: ask for a \
                 smaller `tail` or a later `since`.{searched}"
            )
        } else if log.overflowed {
            format!(
                "Older lines do not fit in {} KB: narrow it down with `since`, `until`, `grep` or \
                 `stream`.",
                MAX_BYTES / 1000
            )
        } else if log.cut {
            "There are older lines: ask for more with `tail`.".to_owned()
        } else if log.is_partly_searched {
            format!(
                "Only the newest {} lines were searched: pass `since` and `until` for older ones.",
                log.searched
            )
        } else if self.follows() {
            return None;
        } else if self.grep.is_some() && is_empty {
            format!("None of the {} lines matches.", log.searched)
        } else if self.stream != Stream::Both && is_empty && !tty {
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

/// The redacted text of a line, by which it is searched: a match of the line as written would reveal a hidden value, one
/// character after the other. `None` if it is hidden as a part of all that is shown. Hides in the line itself what only
/// the line before tells.
fn sift(lines: &mut LineRedactor, line: &mut Line) -> Option<String> {
    let shown = lines.line(&line.text)?;
    if lines.needs_previous() {
        line.text.clone_from(&shown);
    }
    Some(shown)
}

/// Waits for a container whose log has ended, since it may be restarted. Returns it as it runs again.
async fn runs_again(docker: &Docker, id: &ContainerName) -> Option<ContainerDetails> {
    let mut ended = Instant::now();
    while ended.elapsed() < RESTART_TIME {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = docker.engine.try_inspect(id).await.ok()?;
        if now.state.runs() {
            return Some(now);
        }
        // Its restart policy waits longer and longer.
        if now.state.is_alive() {
            ended = Instant::now();
        }
    }
    None
}

/// The tool error of reading the log of `container`.
async fn explain(docker: &Docker, failure: EngineError, container: &str) -> ToolError {
    if failure.is_unreadable_log() {
        return unreadable(container);
    }
    let action = Action::reading(ObjectKind::Container, container);
    docker.explain(failure, action).await
}

fn unreadable(container: &str) -> ToolError {
    ToolError::conflict(format!(
        "The log of `{container}` cannot be read: its log driver keeps nothing that the engine \
         could read back. Recreate it with the log driver `json-file` or `local`."
    ))
}
