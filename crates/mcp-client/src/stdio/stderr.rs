//! Forwards a child's stderr to the handler, with a rate limit.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, BufReader};
use tokio::time::Instant;

use super::lines::{self, Line};
use crate::inbound::Inbound;

/// Limit of a line, in bytes. Longer lines are truncated.
const MAX_LINE: usize = 4 << 10;
/// Limit of forwarded lines per [`RATE_INTERVAL`]: enough for the stack trace of a crash.
const MAX_LINES_PER_INTERVAL: u32 = 50;
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Reads everything, so that the child never blocks, and forwards what is within the rate limit.
pub(super) async fn forward(peer: Arc<str>, inbound: Arc<Inbound>, stderr: impl AsyncRead + Unpin) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    let (mut since, mut count) = (Instant::now(), 0);
    // Whether the next part belongs to a truncated line.
    let mut is_rest = false;
    loop {
        let is_whole = match lines::next(&mut stderr, &mut line, MAX_LINE).await {
            Ok(Line::Whole) => true,
            Ok(Line::Part) => false,
            Ok(Line::End) | Err(_) => return,
        };
        if std::mem::replace(&mut is_rest, !is_whole) {
            continue;
        }
        if since.elapsed() >= RATE_INTERVAL {
            (since, count) = (Instant::now(), 0);
        }
        count += 1;
        if count > MAX_LINES_PER_INTERVAL {
            inbound.count(|all| &mut all.stderr_dropped);
            continue;
        }
        line.truncate(MAX_LINE);
        let text = String::from_utf8_lossy(&line);
        inbound.handler.stderr(&peer, &text);
    }
}
