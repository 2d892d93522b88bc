//! The lines of a log, and the last ones of them that fit.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};

use super::frames::FrameDecoder;
use super::{Log, Pattern};
use crate::engine::error::EngineError;

/// Most bytes of a line that are read and searched; the rest of a longer one is dropped.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Most bytes of a line that are shown.
const MAX_SHOWN_BYTES: usize = 4096;

/// A whole line of a log.
#[derive(Default)]
pub(crate) struct Line {
    /// Its time, if the query asks for it.
    pub(crate) time: String,
    pub(crate) text: String,
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &*self.time {
            "" => f.write_str(&self.text),
            time => write!(f, "{time} {}", self.text),
        }
    }
}

/// Makes lines of the chunks of a log.
pub(crate) struct LineReader {
    frames: FrameDecoder,
    /// Every record begins with its time.
    timestamps: bool,
    /// Lines that have not ended yet, one per stream.
    open: [OpenLine; 3],
    has_begun: bool,
}

#[derive(Default)]
struct OpenLine {
    bytes: Vec<u8>,
    /// The number of bytes that were not kept.
    dropped: usize,
}

impl LineReader {
    /// A reader of the log of a container, with a terminal or without.
    pub(crate) fn new(tty: bool, timestamps: bool) -> Self {
        Self {
            frames: FrameDecoder::new(tty),
            timestamps,
            open: Default::default(),
            has_begun: false,
        }
    }

    /// Adds a chunk, and calls `each` with the lines that end in it.
    pub(crate) fn push(
        &mut self,
        chunk: &[u8],
        each: &mut impl FnMut(Line),
    ) -> Result<(), EngineError> {
        let (timestamps, open) = (self.timestamps, &mut self.open);
        self.has_begun |= !chunk.is_empty();
        self.frames.push(chunk, |part| {
            let (open, mut bytes) = (&mut open[part.source], part.bytes);
            // A line of several records has a timestamp in each; keep only the first.
            if timestamps && part.at_start && !open.bytes.is_empty() {
                bytes = split_time(bytes).1;
            }
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                let line = piece.strip_suffix(b"\n");
                open.push(line.unwrap_or(piece));
                if line.is_some() {
                    each(std::mem::take(open).end(timestamps));
                }
            }
        })
    }

    /// Whether any bytes have arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Ends all lines.
    pub(crate) fn finish(&mut self, each: &mut impl FnMut(Line)) {
        let open = std::mem::take(&mut self.open).into_iter();
        open.filter(|line| !line.bytes.is_empty())
            .for_each(|line| each(line.end(self.timestamps)));
    }
}

impl OpenLine {
    fn push(&mut self, text: &[u8]) {
        let room = MAX_LINE_BYTES - self.bytes.len();
        let kept = text.len().min(room);
        self.bytes.extend_from_slice(&text[..kept]);
        self.dropped += text.len() - kept;
    }

    fn end(self, timestamps: bool) -> Line {
        let (time, text) = match timestamps {
            true => split_time(&self.bytes),
            false => (&[][..], &*self.bytes),
        };
        let mut text = String::from_utf8_lossy(text).into_owned();
        if self.dropped > 0 {
            text.push_str(&left_out(self.dropped));
        }
        Line {
            time: String::from_utf8_lossy(time).into_owned(),
            text,
        }
    }
}

/// Keeps the newest lines that fit.
pub(crate) struct Window {
    lines: VecDeque<Line>,
    /// Bytes of them that are shown.
    bytes: usize,
    max_lines: usize,
    max_bytes: usize,
    /// Older lines were dropped because of `max_lines`.
    cut: bool,
    /// Older lines were dropped because of `max_bytes`.
    overflowed: bool,
}

impl Window {
    /// A window of at most `max_lines` lines, of which about `max_bytes` bytes are shown.
    pub(crate) fn new(max_lines: usize, max_bytes: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            max_lines,
            max_bytes,
            cut: false,
            overflowed: false,
        }
    }

    pub(crate) fn push(&mut self, line: Line) {
        self.bytes += shown_bytes(&line);
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
            self.bytes -= shown_bytes(&oldest);
        }
    }

    pub(crate) fn into_log(self) -> Log {
        Log {
            lines: self.lines.into(),
            cut: self.cut,
            overflowed: self.overflowed,
            ..Log::default()
        }
    }
}

fn shown_bytes(line: &Line) -> usize {
    line.time.len() + line.text.len().min(MAX_SHOWN_BYTES) + 1
}

fn left_out(bytes: usize) -> String {
    format!("… ({bytes} more bytes)")
}

/// The lines of a redacted text as they are shown: a long one from its beginning, or from shortly before the first
/// match of `pattern`. They are cut after the redaction, which knows a secret by all of it.
pub(crate) fn shorten(text: &str, pattern: Option<&Pattern>) -> String {
    let lines = text.lines().map(|line| shortened(line, pattern));
    lines.collect::<Vec<_>>().join("\n")
}

fn shortened<'a>(line: &'a str, pattern: Option<&Pattern>) -> Cow<'a, str> {
    if line.len() <= MAX_SHOWN_BYTES {
        return line.into();
    }
    let (time, text) = timed(line);
    let found = pattern.and_then(|pattern| pattern.0.find(text));
    let found = found.filter(|found| found.end() > MAX_SHOWN_BYTES);
    let from = found.map_or(0, |found| {
        text.floor_char_boundary(found.start().saturating_sub(MAX_SHOWN_BYTES / 4))
    });
    let to = text.floor_char_boundary((from + MAX_SHOWN_BYTES).min(text.len()));
    let before = if from > 0 { "… " } else { "" };
    let after = match text.len() - (to - from) {
        0 => String::new(),
        bytes => left_out(bytes),
    };
    format!("{time}{before}{}{after}", &text[from..to]).into()
}

/// The time at the beginning of a line, with the blank after it, and the rest.
pub(crate) fn timed(line: &str) -> (&str, &str) {
    let rest = split_time(line.as_bytes()).1;
    line.split_at(line.len() - rest.len())
}

/// The RFC 3339 time at the beginning of a record, and the record without it and the blank after it.
fn split_time(record: &[u8]) -> (&[u8], &[u8]) {
    let end = record.iter().position(|byte| *byte == b' ');
    match end {
        Some(end) if record[..end].ends_with(b"Z") => (&record[..end], &record[end + 1..]),
        _ => (&[], record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: u8, text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[source, 0, 0, 0], &length, text.as_bytes()].concat()
    }

    fn read(timestamps: bool, frames: &[Vec<u8>]) -> Vec<Line> {
        let (mut reader, mut lines) = (LineReader::new(false, timestamps), Vec::new());
        for frame in frames {
            reader.push(frame, &mut |line| lines.push(line)).unwrap();
        }
        reader.finish(&mut |line| lines.push(line));
        lines
    }

    #[test]
    fn newest_lines_of_each_stream_are_kept() {
        for (max_lines, max_bytes, expected, cut, overflowed) in [
            (9, 99, "err\nout put\nlast", false, false),
            (2, 99, "out put\nlast", true, false),
            (9, 14, "out put\nlast", false, true),
        ] {
            let mut window = Window::new(max_lines, max_bytes);
            let frames = [frame(1, "out "), frame(2, "err\n"), frame(1, "put\nlast")];
            read(false, &frames)
                .into_iter()
                .for_each(|line| window.push(line));
            let log = window.into_log();
            let state = (&*log.text(), log.cut, log.overflowed);
            assert_eq!(state, (expected, cut, overflowed));
        }
    }

    #[test]
    fn a_long_line_is_searched_as_a_whole_and_has_one_timestamp() {
        let stamp = "2026-01-31T12:00:00.123456789Z";
        let first = frame(1, &format!("{stamp} {}", "a".repeat(16_000)));
        let lines = read(true, &[first, frame(1, &format!("{stamp} bb end\n"))]);
        let [line] = &*lines else { panic!() };
        assert_eq!(line.time, stamp);
        assert_eq!(line.text.len(), 16_006);
        let pattern = Pattern::try_from("END".to_owned()).unwrap();
        assert!(pattern.is_match(&line.text));
        let beginning = shorten(&line.to_string(), None);
        assert!(beginning.starts_with(&format!("{stamp} aaa")));
        assert!(beginning.ends_with("… (11910 more bytes)"), "{beginning}");
        let found = shorten(&line.to_string(), Some(&pattern));
        assert!(found.starts_with(&format!("{stamp} … aaa")));
        assert!(found.ends_with("bb end… (14979 more bytes)"), "{found}");
        assert_eq!(shorten("short\nlines", Some(&pattern)), "short\nlines");
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let part = frame(1, &"a".repeat(MAX_LINE_BYTES));
        let lines = read(false, &[part.clone(), part]);
        assert!(lines[0].text.ends_with("… (1048576 more bytes)"));
    }
}
