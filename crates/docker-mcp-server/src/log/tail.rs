//! The last lines of a stream that may be endless.

use std::collections::VecDeque;

use super::frames::Part;
use super::{Keep, Log};

/// Longest line that is kept, in bytes; of a longer one its beginning.
const LINE_LIMIT: usize = 4096;

/// Keeps the newest lines, as many as fit.
pub(crate) struct Tail<'a> {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    max_lines: usize,
    max_bytes: usize,
    timestamps: bool,
    /// Older lines were left out, because there are more than were asked for.
    cut: bool,
    /// Older lines were left out, because they have too many bytes.
    overflowed: bool,
    /// Lines that have not ended yet, one per stream.
    open: [Line; 3],
    keep: Option<Keep<'a>>,
    /// How many of the lines were not taken yet.
    fresh: usize,
}

#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    /// Bytes of it that were not kept.
    dropped: usize,
}

impl<'a> Tail<'a> {
    /// At most `max_lines` lines and about `max_bytes` bytes. With `timestamps`, records begin with
    /// one.
    pub(crate) fn new(max_lines: usize, max_bytes: usize, timestamps: bool) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            max_lines,
            max_bytes,
            timestamps,
            cut: false,
            overflowed: false,
            open: Default::default(),
            keep: None,
            fresh: 0,
        }
    }

    /// The same, of the lines that `keep` keeps.
    pub(crate) fn keeping(self, keep: Option<Keep<'a>>) -> Self {
        Self { keep, ..self }
    }

    /// The lines that have ended since it was last asked; the newest of them, where there are more
    /// than are kept.
    pub(crate) fn take_new(&mut self) -> Vec<String> {
        let fresh = std::mem::take(&mut self.fresh).min(self.lines.len());
        let new = self.lines.range(self.lines.len() - fresh..);
        new.map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    pub(crate) fn push(&mut self, part: Part<'_>) {
        let Part {
            source,
            at_start,
            mut bytes,
        } = part;
        // A line of several records has a timestamp in each; only the first belongs to it.
        if self.timestamps && at_start && !self.open[source].is_empty() {
            bytes = without_timestamp(bytes);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.open[source].push(text);
            if ends {
                self.end_line(source);
            }
        }
    }

    /// Whether nothing came yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.open.iter().all(Line::is_empty)
    }

    /// The lines.
    pub(crate) fn finish(mut self) -> Log {
        for source in 0..self.open.len() {
            if !self.open[source].is_empty() {
                self.end_line(source);
            }
        }
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|line| String::from_utf8_lossy(line))
            .collect();
        Log {
            text: lines.join("\n"),
            cut: self.cut,
            overflowed: self.overflowed,
            incomplete: false,
        }
    }

    fn end_line(&mut self, source: usize) {
        let line = std::mem::take(&mut self.open[source]).end();
        if let Some(keep) = &mut self.keep {
            let text = match self.timestamps {
                true => without_timestamp(&line),
                false => &line,
            };
            if !keep(&String::from_utf8_lossy(text)) {
                return;
            }
        }
        self.fresh += 1;
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        loop {
            match (
                self.lines.len() > self.max_lines,
                self.bytes > self.max_bytes,
            ) {
                (true, _) => self.cut = true,
                (_, true) => self.overflowed = true,
                _ => break,
            }
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len() + 1;
        }
    }
}

impl Line {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push(&mut self, text: &[u8]) {
        let room = LINE_LIMIT - self.bytes.len();
        let kept = text.len().min(room);
        self.bytes.extend_from_slice(&text[..kept]);
        self.dropped += text.len() - kept;
    }

    fn end(mut self) -> Vec<u8> {
        if self.dropped > 0 {
            let note = format!("… ({} more bytes)", self.dropped);
            self.bytes.extend_from_slice(note.as_bytes());
        }
        self.bytes
    }
}

/// A record without the RFC 3339 timestamp and the blank that it begins with.
fn without_timestamp(record: &[u8]) -> &[u8] {
    let end = record.iter().position(|byte| *byte == b' ');
    match end {
        Some(end) if record[..end].ends_with(b"Z") => &record[end + 1..],
        _ => record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(max_lines: usize, max_bytes: usize, timestamps: bool, parts: &[(usize, &str)]) -> Log {
        let mut tail = Tail::new(max_lines, max_bytes, timestamps);
        for (source, text) in parts {
            tail.push(Part {
                source: *source,
                at_start: true,
                bytes: text.as_bytes(),
            });
        }
        tail.finish()
    }

    #[test]
    fn parts_become_lines_per_stream() {
        let parts = [(1, "out "), (2, "err\n"), (1, "put\nlast")];
        let log = tail(9, 99, false, &parts);
        assert_eq!(log.text, "err\nout put\nlast");
        assert!(!log.cut && !log.overflowed);
    }

    #[test]
    fn the_oldest_lines_go_first() {
        let parts = [(1, "one\ntwo\nthree\n")];
        let many = tail(2, 99, false, &parts);
        assert_eq!(
            (&*many.text, many.cut, many.overflowed),
            ("two\nthree", true, false)
        );
        let long = tail(9, 10, false, &parts);
        assert_eq!(
            (&*long.text, long.cut, long.overflowed),
            ("two\nthree", false, true)
        );
    }

    #[test]
    fn a_long_line_keeps_its_beginning_and_one_timestamp() {
        let stamp = "2026-01-31T12:00:00.123456789Z ";
        let (first, second) = (
            format!("{stamp}{}", "a".repeat(16_000)),
            format!("{stamp}bb\n"),
        );
        let Log { text, .. } = tail(9, 9_999, true, &[(1, &first), (1, &second)]);
        assert!(text.starts_with(stamp) && !text[40..].contains("2026"));
        assert!(text.ends_with("… (11937 more bytes)"), "{}", &text[4_090..]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut tail = Tail::new(9, 99, false);
        tail.push(Part {
            source: 1,
            at_start: true,
            bytes: b"a\xffb\n",
        });
        assert_eq!(tail.finish().text, "a\u{fffd}b");
    }
}
