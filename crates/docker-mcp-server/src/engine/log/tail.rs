//! A buffer of the last lines of a stream.

use std::collections::VecDeque;

use super::frames::FramePart;
use super::{LineFilter, Log};

/// Longest line, in bytes; longer ones are truncated.
const MAX_LINE_BYTES: usize = 4096;

/// Keeps the newest lines that fit.
pub(crate) struct TailBuffer<'a> {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    max_lines: usize,
    max_bytes: usize,
    timestamps: bool,
    /// Older lines were dropped because of `max_lines`.
    cut: bool,
    /// Older lines were dropped because of `max_bytes`.
    overflowed: bool,
    /// Lines that have not ended yet, one per stream.
    open: [OpenLine; 3],
    filter: Option<LineFilter<'a>>,
    /// The number of lines that the filter got.
    searched: usize,
    /// The number of lines since the last `take_new`.
    fresh: usize,
}

#[derive(Default)]
struct OpenLine {
    bytes: Vec<u8>,
    /// The number of bytes that were not kept.
    dropped: usize,
}

impl<'a> TailBuffer<'a> {
    /// A buffer of at most `max_lines` lines and about `max_bytes` bytes. With `timestamps`, every
    /// record begins with its time.
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
            filter: None,
            searched: 0,
            fresh: 0,
        }
    }

    /// Keeps only lines that pass `filter`.
    pub(super) fn with_filter(self, filter: Option<LineFilter<'a>>) -> Self {
        Self { filter, ..self }
    }

    /// The lines that ended since the last call, as far as they are still kept.
    pub(crate) fn take_new(&mut self) -> Vec<String> {
        let fresh = std::mem::take(&mut self.fresh).min(self.lines.len());
        let new = self.lines.range(self.lines.len() - fresh..);
        new.map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    /// Adds some bytes.
    pub(crate) fn push(&mut self, part: FramePart<'_>) {
        let (open, mut bytes) = (&self.open[part.source], part.bytes);
        // A line of several records has a timestamp in each; keep only the first.
        if self.timestamps && part.at_start && !open.bytes.is_empty() {
            bytes = without_timestamp(bytes);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = piece.strip_suffix(b"\n");
            self.open[part.source].push(line.unwrap_or(piece));
            if line.is_some() {
                self.end_line(part.source);
            }
        }
    }

    /// Whether no bytes have arrived yet.
    pub(super) fn is_empty(&self) -> bool {
        self.searched == 0
            && self.lines.is_empty()
            && self.open.iter().all(|line| line.bytes.is_empty())
    }

    /// Ends all lines and returns them.
    pub(crate) fn finish(mut self) -> Log {
        for source in 0..self.open.len() {
            if !self.open[source].bytes.is_empty() {
                self.end_line(source);
            }
        }
        let lines = self.lines.iter();
        let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line)).collect();
        Log {
            text: lines.join("\n"),
            cut: self.cut,
            overflowed: self.overflowed,
            incomplete: false,
            searched: self.searched,
        }
    }

    fn end_line(&mut self, source: usize) {
        let line = std::mem::take(&mut self.open[source]).end();
        if let Some(passes) = &mut self.filter {
            let text = match self.timestamps {
                true => without_timestamp(&line),
                false => &line,
            };
            self.searched += 1;
            let time = String::from_utf8_lossy(&line[..line.len() - text.len()]);
            if !passes(time.trim_end(), &String::from_utf8_lossy(text)) {
                return;
            }
        }
        self.fresh += 1;
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        loop {
            let too_many = self.lines.len() > self.max_lines;
            if !too_many && self.bytes <= self.max_bytes {
                break;
            }
            self.cut |= too_many;
            self.overflowed |= !too_many;
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len() + 1;
        }
    }
}

impl OpenLine {
    fn push(&mut self, text: &[u8]) {
        let room = MAX_LINE_BYTES - self.bytes.len();
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

/// The record without the RFC 3339 timestamp and the blank at its beginning.
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

    fn tail(max_lines: usize, max_bytes: usize, timestamps: bool, parts: &[(usize, &[u8])]) -> Log {
        let mut tail = TailBuffer::new(max_lines, max_bytes, timestamps);
        for &(source, bytes) in parts {
            tail.push(FramePart {
                source,
                at_start: true,
                bytes,
            });
        }
        tail.finish()
    }

    #[test]
    fn newest_lines_of_each_stream_are_kept() {
        let parts: [(usize, &[u8]); 3] = [(1, b"out "), (2, b"err\n"), (1, b"put\nla\xffst")];
        for (max_lines, max_bytes, expected, cut, overflowed) in [
            (9, 99, "err\nout put\nla\u{fffd}st", false, false),
            (2, 99, "out put\nla\u{fffd}st", true, false),
            (9, 15, "out put\nla\u{fffd}st", false, true),
        ] {
            let log = tail(max_lines, max_bytes, false, &parts);
            let state = (&*log.text, log.cut, log.overflowed);
            assert_eq!(state, (expected, cut, overflowed));
        }
    }

    #[test]
    fn a_long_line_keeps_its_beginning_and_one_timestamp() {
        let stamp = "2026-01-31T12:00:00.123456789Z ";
        let first = format!("{stamp}{}", "a".repeat(16_000));
        let second = format!("{stamp}bb\n");
        let parts = [(1, first.as_bytes()), (1, second.as_bytes())];
        let Log { text, .. } = tail(9, 9_999, true, &parts);
        assert!(text.starts_with(stamp) && !text[40..].contains("2026"));
        assert!(text.ends_with("… (11937 more bytes)"), "{}", &text[4_090..]);
    }
}
