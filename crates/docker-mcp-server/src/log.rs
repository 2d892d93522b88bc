//! Container logs: from the engine's frames to the last lines that fit an answer.

mod frames;
mod pattern;
mod tail;

use std::time::Duration;

use futures_util::StreamExt;

pub(crate) use self::frames::Frames;
pub(crate) use self::pattern::Pattern;
pub(crate) use self::tail::Tail;
use crate::engine::{Engine, EngineError, LogQuery};
use crate::name::ContainerName;

/// Records of both streams among which the lines of one are looked for, at least.
pub(crate) const ONE_STREAM: u32 = 10_000;
/// Records among which lines with a pattern are looked for.
pub(crate) const SEARCHED: u32 = 200_000;

/// The end of a log.
pub(crate) struct Log {
    /// Oldest first, with line feeds between. Neither cleaned nor redacted.
    pub(crate) text: String,
    /// There are older lines than were asked for.
    pub(crate) cut: bool,
    /// There are older lines that were asked for and do not fit.
    pub(crate) overflowed: bool,
    /// The time was up before the engine had sent the newest lines.
    pub(crate) incomplete: bool,
}

/// Reads the last `lines` lines of a log, of at most `bytes` bytes in all, within `limit`. Memory
/// stays flat however long the log is.
pub(crate) async fn read(
    engine: &Engine,
    container: &ContainerName,
    query: LogQuery,
    tty: bool,
    bytes: usize,
    limit: Duration,
) -> Result<Log, EngineError> {
    search(engine, container, query, tty, bytes, limit, None).await
}

/// Which lines to keep: told each of them without its time.
pub(crate) type Keep<'a> = Box<dyn FnMut(&str) -> bool + Send + 'a>;

/// As [`read`], of the lines that `keep` keeps among the newest [`SEARCHED`].
pub(crate) async fn search(
    engine: &Engine,
    container: &ContainerName,
    mut query: LogQuery,
    tty: bool,
    bytes: usize,
    limit: Duration,
    keep: Option<Keep<'_>>,
) -> Result<Log, EngineError> {
    let lines = query.tail as usize;
    query.tail = if keep.is_some() {
        SEARCHED
    } else if query.stdout && query.stderr {
        // One more than wanted tells whether there are older ones.
        query.tail + 1
    } else {
        // The engine counts the records of both streams before it picks the one.
        query.tail.saturating_mul(2).max(ONE_STREAM)
    };
    let mut reply = engine.logs(container, &query);
    let mut frames = Frames::new(tty);
    let mut tail = Tail::new(lines, bytes, query.timestamps).keeping(keep);
    let collect = async {
        while let Some(piece) = reply.next().await {
            frames.push(&piece?, |frame| tail.push(frame))?;
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
