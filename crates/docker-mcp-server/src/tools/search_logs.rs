//! `search_logs`.

use futures_util::stream;
use tokio::time::{Instant, timeout_at};
use upstream::time::{Since, Timestamp, parse_timestamp};

use super::get_container_logs::line_filter;
use super::prelude::*;
use crate::compose;
use crate::engine::ContainerSummary;
use crate::engine::log::{self, LineFilter, LogQuery, Pattern};
use crate::unix_time;

/// The period before now without `since`, in seconds.
const DEFAULT_AGE_SECONDS: i64 = 3_600;
/// The time for all logs together.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_CONCURRENT_SEARCHES: usize = 8;
const MAX_PATTERNS: usize = 5;
/// Parts of the period with a count of their own.
const BUCKETS: i64 = 12;
/// Longest line that is shown, in characters.
const MAX_SAMPLE: usize = 200;
/// Containers that are named because they were not searched.
const MAX_NAMED: usize = 10;

/// Count matching log lines of many containers: per pattern, container and part of the period.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchLogs {
    /// One to five regular expressions.
    #[schemars(with = "Vec<String>")]
    patterns: Vec<Pattern>,
    /// Only containers whose name contains this.
    name: Option<String>,
    /// Only with this label: `key` or `key=value`.
    label: Option<String>,
    /// Only of this compose project.
    project: Option<String>,
    /// An age (`10m`) or an RFC 3339 time; default: an hour ago.
    since: Option<Since>,
    /// Likewise; default: now.
    until: Option<Since>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct LogMatches {
    /// Matching lines of each pattern, in the order of `patterns`.
    totals: Vec<u64>,
    /// Most matches first.
    containers: Vec<ContainerMatches>,
    /// Containers with matches that do not fit; `name` narrows it down.
    omitted: Option<usize>,
    /// Parts of the period with matches.
    times: Vec<TimeMatches>,
    /// Logs, and lines of them, that were searched.
    searched_containers: usize,
    searched_lines: usize,
    /// Logs or parts of them that were not searched, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_searched: Vec<String>,
    redacted: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct ContainerMatches {
    container: String,
    matches: Vec<u64>,
    first: String,
    last: String,
    last_line: String,
}

#[derive(Serialize, JsonSchema)]
struct TimeMatches {
    from: String,
    matches: Vec<u64>,
}

/// The matches in one log.
#[derive(Default)]
struct Matches {
    counts: Vec<u64>,
    first: String,
    last: String,
    /// Redacted.
    last_line: String,
    hidden: u32,
    /// By the number of the part of the period.
    parts: BTreeMap<i64, Vec<u64>>,
}

impl Tool for SearchLogs {
    const NAME: &'static str = "search_logs";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = LogMatches;

    async fn call(self, docker: &Docker, _: &Call) -> Result<LogMatches, ToolError> {
        if !(1..=MAX_PATTERNS).contains(&self.patterns.len()) {
            return Err(ToolError::invalid_argument("Pass one to five patterns."));
        }
        let (since, until) = self.period();
        let part = ((until - since) / BUCKETS).max(1);
        let deadline = Instant::now() + SEARCH_TIMEOUT;
        let listed = timeout_at(deadline, docker.containers(true)).await;
        let mut wanted = listed.map_err(|_| {
            ToolError::new(
                ToolErrorKind::Timeout,
                "The Docker Engine did not list its containers in time: try again later.",
            )
        })??;
        wanted.retain(|container| self.wants(container));
        let this = &self;
        let searched: Vec<_> = stream::iter(wanted)
            .map(|container| async move {
                let found = this
                    .search(docker, &container, (since, part), deadline)
                    .await;
                (container.display_name().to_owned(), found)
            })
            .buffered(MAX_CONCURRENT_SEARCHES)
            .collect()
            .await;
        let redactor = docker.redactor();
        let (mut rows, mut not_searched) = (Vec::new(), Vec::new());
        let mut totals = vec![0; self.patterns.len()];
        let mut times: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
        let (mut searched_containers, mut searched_lines, mut hidden) = (0, 0, 0);
        for (name, found) in searched {
            let name = redactor.text(&name);
            let Some((log, found)) = found else {
                not_searched.push(format!(
                    "{name}: no time was left, or its log cannot be read"
                ));
                continue;
            };
            hidden += found.hidden;
            searched_containers += 1;
            searched_lines += log.searched;
            if log.incomplete {
                not_searched.push(format!("{name}: the newest lines; the time was over"));
            } else if log.is_partly_searched() && self.until.is_none() {
                not_searched.push(format!("{name}: lines before the newest {}", log.searched));
            }
            add(&mut totals, &found.counts);
            for (part, counts) in &found.parts {
                add(
                    times.entry(*part).or_insert_with(|| vec![0; counts.len()]),
                    counts,
                );
            }
            if !found.first.is_empty() {
                rows.push(ContainerMatches {
                    container: name,
                    matches: found.counts,
                    first: found.first,
                    last: found.last,
                    last_line: truncate(&found.last_line, MAX_SAMPLE),
                });
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.matches.iter().sum::<u64>()));
        let (containers, omitted) = fit(rows);
        let times = times.into_iter().map(|(number, matches)| TimeMatches {
            from: rfc3339(since + number * part),
            matches,
        });
        Ok(LogMatches {
            totals,
            containers,
            omitted,
            times: times.collect(),
            searched_containers,
            searched_lines,
            not_searched: upstream::text::truncate_list(not_searched, MAX_NAMED),
            redacted: Some(hidden + redactor.hidden().unwrap_or(0)).filter(|hidden| *hidden > 0),
        })
    }
}

impl SearchLogs {
    /// Unix seconds.
    fn period(&self) -> (i64, i64) {
        let now = Timestamp::now().as_second();
        let until = self.until.map_or(now, unix_time::from_argument);
        let since = self
            .since
            .map_or(until - DEFAULT_AGE_SECONDS, unix_time::from_argument);
        (since.max(0), until)
    }

    fn wants(&self, container: &ContainerSummary) -> bool {
        let has_label = |wanted: &String| match wanted.split_once('=') {
            Some((key, value)) => container.labels.get(key).is_some_and(|is| is == value),
            None => container.labels.contains_key(wanted),
        };
        let project = compose::project_of(&container.labels);
        let name = container.display_name();
        self.name.as_ref().is_none_or(|part| name.contains(part))
            && self.label.as_ref().is_none_or(has_label)
            && self
                .project
                .as_ref()
                .is_none_or(|wanted| project == Some(wanted))
    }

    /// Searches one log; `None` if it cannot be read, or the time is over.
    async fn search(
        &self,
        docker: &Docker,
        container: &ContainerSummary,
        (since, part): (i64, i64),
        deadline: Instant,
    ) -> Option<(log::Log, Matches)> {
        let (id, engine) = (ContainerName::new(&container.id).ok()?, &docker.engine);
        deadline.checked_duration_since(Instant::now())?;
        let details = timeout_at(deadline, engine.try_inspect(&id))
            .await
            .ok()?
            .ok()?;
        let redactor = docker.redactor_of(&details);
        let limit = deadline.checked_duration_since(Instant::now())?;
        let query = LogQuery {
            since,
            until: self.until.map_or(0, unix_time::from_argument),
            timestamps: true,
            ..LogQuery::newest(1)
        };
        let mut found = Matches {
            counts: vec![0; self.patterns.len()],
            ..Matches::default()
        };
        let patterns = self
            .patterns
            .iter()
            .map(|pattern| line_filter(docker.redactor_of(&details), Some(pattern)));
        let mut patterns: Vec<LineFilter<'_>> = patterns.flatten().collect();
        let count: LineFilter<'_> = Box::new(|time, line| {
            let hits = patterns
                .iter_mut()
                .map(|matches| u64::from(matches(time, line)));
            let hits: Vec<u64> = hits.collect();
            if hits.contains(&1) {
                let at = parse_timestamp(time).map_or(since, Timestamp::as_second);
                let counts = found.parts.entry((at - since) / part);
                add(counts.or_insert_with(|| vec![0; hits.len()]), &hits);
                add(&mut found.counts, &hits);
                if found.first.is_empty() {
                    time.clone_into(&mut found.first);
                }
                time.clone_into(&mut found.last);
                line.clone_into(&mut found.last_line);
            }
            false
        });
        let read = engine.read_log(&details, query, 0, limit, Some(count));
        let log = read.await.ok()?;
        found.last_line = redactor.text(&found.last_line);
        found.hidden = redactor.hidden().unwrap_or(0);
        Some((log, found))
    }
}

fn add(sums: &mut [u64], counts: &[u64]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}
