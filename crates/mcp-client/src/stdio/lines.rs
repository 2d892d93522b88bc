//! The lines that a child reads and writes: its messages, and what it logs on stderr.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt, BufReader,
};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::inbound::Inbound;

/// The kind of content that [`next`] has put into the buffer.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// A line, without its end; the last one may lack it.
    Whole,
    /// The beginning of a line that exceeds the limit, one byte longer than it. The next call reads the
    /// rest.
    Part,
    /// Nothing: the stream has ended.
    End,
}

/// Reads the next line into `line`, reusing its allocation.
pub(crate) async fn next(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Line> {
    line.clear();
    // One more byte, for the line end.
    let mut bounded = reader.take(limit as u64 + 1);
    let read = bounded.read_until(b'\n', line).await?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Line::Whole);
    }
    Ok(match read {
        0 => Line::End,
        read if read > limit => Line::Part,
        _ => Line::Whole,
    })
}

/// Limit of one write, in bytes. More messages stay in the queue, which is bounded.
const MAX_WRITE: usize = 64 << 10;

/// Writes messages until the queue is closed, the child stops reading, or `stop`; messages that were
/// queued before `stop` are still written. Then closes the child's stdin.
pub(super) async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<String>,
    stop: CancellationToken,
) {
    let mut bytes = Vec::new();
    loop {
        let mut next = tokio::select! {
            message = queue.recv() => match message {
                None => return,
                message => message,
            },
            () = stop.cancelled(), if !queue.is_closed() => { queue.close(); continue },
        };
        bytes.clear();
        while let Some(message) = next {
            add_line(&message, &mut bytes);
            next = match bytes.len() < MAX_WRITE {
                true => queue.try_recv().ok(),
                false => None,
            };
        }
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Adds a message with its line breaks replaced by blanks: raw values keep their line breaks, but here
/// a line break ends a message. Line breaks outside of JSON strings are white space, and within them
/// they are escaped.
fn add_line(message: &str, bytes: &mut Vec<u8>) {
    let is_break = |byte| matches!(byte, b'\n' | b'\r');
    let unbroken = |byte| if is_break(byte) { b' ' } else { byte };
    bytes.extend(message.bytes().map(unbroken));
    bytes.push(b'\n');
}

/// Limit of a line, in bytes. Longer lines are truncated.
const MAX_STDERR_LINE: usize = 4 << 10;
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
        let is_whole = match next(&mut stderr, &mut line, MAX_STDERR_LINE).await {
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
        line.truncate(MAX_STDERR_LINE);
        let text = String::from_utf8_lossy(&line);
        inbound.handler.stderr(&peer, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn read(input: &str, capacity: usize, limit: usize) -> Vec<(Line, String)> {
        let mut reader = BufReader::with_capacity(capacity, input.as_bytes());
        let mut line = Vec::new();
        let mut lines = Vec::new();
        loop {
            match next(&mut reader, &mut line, limit).await.unwrap() {
                Line::End => return lines,
                kind => lines.push((kind, String::from_utf8(line.clone()).unwrap())),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_whole_with_any_buffer_size() {
        for capacity in 1..12 {
            let lines = read("ab\n\ncdef\ng", capacity, 4).await;
            let expected = ["ab", "", "cdef", "g"].map(|line| (Line::Whole, line.to_owned()));
            assert_eq!(lines, expected, "capacity {capacity}");
        }
    }

    #[tokio::test]
    async fn long_lines_come_in_parts() {
        for capacity in 1..12 {
            let lines = read("abcdefg\nh\n", capacity, 3).await;
            let expected = [
                (Line::Part, "abcd".to_owned()),
                (Line::Whole, "efg".to_owned()),
                (Line::Whole, "h".to_owned()),
            ];
            assert_eq!(lines, expected, "capacity {capacity}");
        }
    }

    #[test]
    fn messages_are_one_line_and_keep_their_other_bytes() {
        let mut bytes = b"{}\n".to_vec();
        add_line("{\"n\":1e400,\r\n \"t\":\"a\\nä\"}", &mut bytes);
        let lines = "{}\n{\"n\":1e400,   \"t\":\"a\\nä\"}\n";
        assert_eq!(bytes, lines.as_bytes());
    }
}
