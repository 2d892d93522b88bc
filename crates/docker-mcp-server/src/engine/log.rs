//! Logs of containers: decodes the engine's frames and keeps the last lines that fit.

mod frames;
mod pattern;
mod query;
mod tail;

use std::time::Duration;

use futures_util::StreamExt;

pub(crate) use self::frames::FrameDecoder;
pub(crate) use self::pattern::Pattern;
pub(crate) use self::query::LogQuery;
pub(crate) use self::tail::TailBuffer;
use crate::engine::client::Engine;
use crate::engine::container::ContainerDetails;
use crate::engine::error::EngineError;
use crate::engine::name::ContainerName;

/// Fewest records of both streams that are read for the lines of one stream.
pub(crate) const MIN_RECORDS_FOR_ONE_STREAM: u32 = 10_000;
/// Most records that are searched for a pattern.
pub(crate) const MAX_SEARCHED_RECORDS: u32 = 200_000;

/// The end of a log.
pub(crate) struct Log {
    /// Lines, oldest first. Neither cleaned nor redacted.
    pub(crate) text: String,
    /// There are older lines than requested.
    pub(crate) cut: bool,
    /// There are older requested lines that do not fit.
    pub(crate) overflowed: bool,
    /// A timeout came before the newest lines.
    pub(crate) incomplete: bool,
    /// Lines that the filter got.
    pub(crate) searched: usize,
}

impl Log {
    /// Whether there are older lines that the filter did not get.
    pub(crate) fn is_partly_searched(&self) -> bool {
        self.searched >= MAX_SEARCHED_RECORDS as usize
    }
}

/// A filter of lines; it gets the time of each, which is empty unless timestamps are requested, and its text.
pub(crate) type LineFilter<'a> = Box<dyn FnMut(&str, &str) -> bool + Send + 'a>;

impl Engine {
    /// Reads the last lines of a container's log, at most `bytes` bytes in all, with the timeout `limit`.
    /// Memory use does not depend on the length of the log. With a `filter`, reads the lines that pass it:
    /// among the newest [`MAX_SEARCHED_RECORDS`], or, before `until`, among as many as the timeout allows.
    pub(crate) async fn read_log(
        &self,
        container: &ContainerDetails,
        mut query: LogQuery,
        bytes: usize,
        limit: Duration,
        filter: Option<LineFilter<'_>>,
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
        let mut decoder = FrameDecoder::new(container.config.tty);
        let mut tail = TailBuffer::new(lines, bytes, query.timestamps).with_filter(filter);
        let collect = async {
            while let Some(chunk) = reply.next().await {
                decoder.push(&chunk?, |part| tail.push(part))?;
            }
            Ok::<(), EngineError>(())
        };
        let incomplete = match tokio::time::timeout(limit, collect).await {
            Ok(done) => {
                done?;
                false
            }
            Err(_) if tail.is_empty() => return Err(EngineError::Timeout(limit)),
            Err(_) => true,
        };
        Ok(Log {
            incomplete,
            ..tail.finish()
        })
    }
}
