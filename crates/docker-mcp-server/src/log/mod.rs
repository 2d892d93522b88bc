//! Container logs: from the engine's frames to the last lines that fit an answer.

mod frames;
mod tail;

use std::time::Duration;

use futures_util::StreamExt;

use self::frames::Frames;
use self::tail::Tail;
use crate::engine::{Engine, Failure, LogQuery};
use crate::name::ContainerName;

/// Records of both streams among which the lines of one are looked for, at least.
pub(crate) const ONE_STREAM: u32 = 10_000;

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
    mut query: LogQuery,
    tty: bool,
    bytes: usize,
    limit: Duration,
) -> Result<Log, Failure> {
    let lines = query.tail as usize;
    query.tail = if query.stdout && query.stderr {
        // One more than wanted tells whether there are older ones.
        query.tail + 1
    } else {
        // The engine counts the records of both streams before it picks the one.
        query.tail.saturating_mul(2).max(ONE_STREAM)
    };
    let mut reply = engine.logs(container, &query)?;
    let mut frames = Frames::new(tty);
    let mut tail = Tail::new(lines, bytes, query.timestamps);
    let collect = async {
        while let Some(piece) = reply.next().await {
            frames.push(&piece?, |frame| tail.push(frame))?;
        }
        Ok::<(), Failure>(())
    };
    let incomplete = match tokio::time::timeout(limit, collect).await {
        Ok(done) => {
            done?;
            false
        }
        Err(_) if tail.is_empty() => return Err(Failure::Deadline(limit)),
        Err(_) => true,
    };
    Ok(Log {
        incomplete,
        ..tail.finish()
    })
}
