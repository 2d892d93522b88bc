//! Logs of containers: decodes the engine's frames into lines and keeps the last ones that fit.

mod frames;
mod lines;

use std::time::Duration;

use futures_util::StreamExt;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use upstream::time::Timestamp;

pub(crate) use self::lines::{Line, LineReader, Window, shorten, timed};
use crate::engine::client::Engine;
use crate::engine::connector::ByteStream;
use crate::engine::container::ContainerDetails;
use crate::engine::error::EngineError;
use crate::engine::name::ContainerName;
use crate::engine::path::Path;

/// Fewest records of both streams that are read for the lines of one stream.
pub(crate) const MIN_RECORDS_FOR_ONE_STREAM: u32 = 10_000;
/// Most records that are searched for a pattern.
const MAX_SEARCHED_RECORDS: u32 = 200_000;
/// Most memory that a compiled expression may take, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// Longest expression, in bytes: a compiled one takes about a thousand times as much.
const MAX_PATTERN_BYTES: usize = 1_000;

/// The requested part of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogQuery {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// Unix seconds, and nanoseconds after them.
    pub(crate) since: (i64, i32),
    /// Unix seconds; 0 for no end.
    pub(crate) until: i64,
    /// Records, counted from the newest, or [`LogQuery::ALL`].
    pub(crate) tail: u32,
    /// Asks for the time of each record.
    pub(crate) timestamps: bool,
    /// Continues with new records.
    pub(crate) follow: bool,
}

/// The end of a log.
#[derive(Default)]
pub(crate) struct Log {
    /// Oldest first. Neither cleaned nor redacted.
    pub(crate) lines: Vec<Line>,
    /// There are older lines than requested.
    pub(crate) cut: bool,
    /// There are older requested lines that do not fit.
    pub(crate) overflowed: bool,
    /// A timeout came before the newest lines.
    pub(crate) incomplete: bool,
    /// Lines that the filter got.
    pub(crate) searched: usize,
    /// There are older lines that the filter did not get.
    pub(crate) is_partly_searched: bool,
}

/// A regular expression. Matching always takes linear time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(Regex);

/// A filter of lines.
pub(crate) type LineFilter<'a> = Box<dyn FnMut(&Line) -> bool + Send + 'a>;

impl LogQuery {
    /// The number that stands for all records.
    pub(crate) const ALL: u32 = u32::MAX;

    /// The newest records of both streams.
    pub(crate) fn newest(tail: u32) -> Self {
        Self {
            stdout: true,
            stderr: true,
            tail,
            ..Self::default()
        }
    }
}

/// The next moment, as the beginning of a [`LogQuery`].
pub(crate) fn after(time: Timestamp) -> (i64, i32) {
    let next = Timestamp::from_nanosecond(time.as_nanosecond() + 1).unwrap_or(time);
    (next.as_second(), next.subsec_nanosecond())
}

impl Log {
    /// All lines, with their times if the query asked for them.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(Line::to_string).collect();
        lines.join("\n")
    }
}

impl Pattern {
    pub(crate) fn is_match(&self, line: &str) -> bool {
        self.0.is_match(line)
    }
}

impl TryFrom<String> for Pattern {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err("too long: a pattern has at most 1,000 bytes");
        }
        let built = RegexBuilder::new(&text)
            .case_insensitive(true)
            .size_limit(MAX_COMPILED_BYTES)
            .build();
        built
            .map(Self)
            .map_err(|_| "not a regular expression (escape . * + ? ( ) [ ] { } | ^ $ with \\)")
    }
}

impl Engine {
    /// The log of a container, in the engine's frames. The caller has to apply a timeout.
    pub(crate) fn logs(&self, container: &ContainerName, query: &LogQuery) -> ByteStream {
        let since = match query.since {
            (seconds, 0) => seconds.to_string(),
            (seconds, nanoseconds) => format!("{seconds}.{nanoseconds:09}"),
        };
        let mut path = Path::to("/containers")
            .id(container)
            .then("/logs")
            .query("stdout", query.stdout)
            .query("stderr", query.stderr)
            .query("since", since)
            .query("timestamps", query.timestamps);
        if query.tail != LogQuery::ALL {
            path = path.query("tail", query.tail);
        }
        if query.until > 0 {
            path = path.query("until", query.until);
        }
        if query.follow {
            path = path.query("follow", true);
        }
        self.connector.stream(path)
    }

    /// Reads the last lines of a container's log, at most `bytes` bytes in all as they are shown, with the timeout
    /// `limit`. Memory use does not depend on the length of the log. With a `filter`, reads the lines that pass it:
    /// among the newest [`MAX_SEARCHED_RECORDS`], or, before `until`, among as many as the timeout allows.
    pub(crate) async fn read_log(
        &self,
        container: &ContainerDetails,
        mut query: LogQuery,
        bytes: usize,
        limit: Duration,
        mut filter: Option<LineFilter<'_>>,
    ) -> Result<Log, EngineError> {
        let id = ContainerName::new(&container.id).map_err(EngineError::unreadable)?;
        let lines = query.tail as usize;
        query.tail = if filter.is_some() && query.until > 0 {
            // The engine counts records from the newest one, even if `until` is long before it.
            LogQuery::ALL
        } else if filter.is_some() {
            MAX_SEARCHED_RECORDS
        } else if query.stdout && query.stderr {
            // One more than requested shows whether there are older ones.
            query.tail + 1
        } else {
            // The engine counts the records of both streams before it selects one stream.
            let records = query.tail.saturating_mul(2);
            records.max(MIN_RECORDS_FOR_ONE_STREAM)
        };
        let mut reply = self.logs(&id, &query);
        let mut reader = LineReader::new(container.config.tty, query.timestamps);
        let (mut window, mut searched) = (Window::new(lines, bytes), 0);
        let mut keep = |line: Line| {
            searched += usize::from(filter.is_some());
            if filter.as_mut().is_none_or(|passes| passes(&line)) {
                window.push(line);
            }
        };
        let collect = async {
            while let Some(chunk) = reply.next().await {
                reader.push(&chunk?, &mut keep)?;
            }
            Ok::<(), EngineError>(())
        };
        let is_complete = match tokio::time::timeout(limit, collect).await {
            Ok(done) => done.map(|()| true)?,
            Err(_) => false,
        };
        let has_begun = reader.has_begun();
        reader.finish(&mut keep);
        if !is_complete && !has_begun {
            return Err(EngineError::Timeout(limit));
        }
        Ok(Log {
            incomplete: !is_complete,
            searched,
            is_partly_searched: searched >= MAX_SEARCHED_RECORDS as usize,
            ..window.into_log()
        })
    }
}
