//! What a child writes to its stderr.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, BufReader};
use tokio::time::Instant;

use super::lines::{self, Line};
use crate::inbound::Inbound;

/// Longer lines are cut.
const MAX_LINE: usize = 4 << 10;
/// Lines that are handed over in one [`SPAN`]: enough for every honest trace of a crash.
const MAX_LINES: u32 = 50;
const SPAN: Duration = Duration::from_secs(1);

/// Reads everything, so that the child never waits for us, and hands over what is not too much.
pub(super) async fn follow(peer: Arc<str>, inbound: Arc<Inbound>, stderr: impl AsyncRead + Unpin) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    let (mut since, mut count) = (Instant::now(), 0);
    // The rest of a line that was cut.
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
        if since.elapsed() >= SPAN {
            (since, count) = (Instant::now(), 0);
        }
        count += 1;
        if count > MAX_LINES {
            inbound.counting.stderr_dropped();
            continue;
        }
        inbound
            .handler
            .stderr(&peer, &String::from_utf8_lossy(&line));
    }
}
