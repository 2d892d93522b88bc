//! Logs of containers: decodes the engine's frames into lines and keeps the last ones that fit.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use upstream::redact::{LineRedactor, Redactor};
use upstream::time::Timestamp;

use crate::engine::error::EngineError;

/// Fewest records of both streams that are read for the lines of one stream.
pub(crate) const MIN_RECORDS_FOR_ONE_STREAM: u32 = 10_000;
/// Most records that are searched for a pattern.
pub(super) const MAX_SEARCHED_RECORDS: u32 = 200_000;
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
    /// Oldest first. Neither cleaned nor redacted, but for what only the line before tells.
    pub(crate) lines: VecDeque<Line>,
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
    /// Values that are hidden already, since only the line before them tells that they are secrets.
    pub(crate) hidden: u32,
}

/// A regular expression. Matching always takes linear time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(Regex);

/// A filter of lines, which may hide a part of a line.
pub(crate) type LineFilter<'a> = Box<dyn FnMut(&mut Line) -> bool + Send + 'a>;

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

/// Bytes of the header of a frame (`application/vnd.docker.multiplexed-stream`): the stream's number, three zeros, the
/// length.
const HEADER: usize = 8;
/// Longest frame; engines send records of 16 KiB.
const MAX_FRAME_BYTES: usize = 64 << 20;
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

/// Takes a reply apart into the streams of a process.
#[derive(Default)]
pub(crate) struct Frames {
    /// The beginning of a frame.
    rest: Vec<u8>,
}

impl Frames {
    /// Adds a chunk, and calls `each` with the frames that end in it. Streams 0 and 1 are stdout, 2 is stderr.
    pub(crate) fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), EngineError> {
        self.rest.extend_from_slice(chunk);
        let mut frames = &self.rest[..];
        while let Some((header, more)) = frames.split_first_chunk::<HEADER>() {
            let [source @ 0..=2, 0, 0, 0, length @ ..] = *header else {
                return Err(EngineError::unreadable("a frame without a header"));
            };
            let length = u32::from_be_bytes(length) as usize;
            if length > MAX_FRAME_BYTES {
                return Err(EngineError::TooLarge(MAX_FRAME_BYTES as u64));
            }
            let Some((bytes, more)) = more.split_at_checked(length) else {
                break;
            };
            each(source.into(), bytes);
            frames = more;
        }
        let done = self.rest.len() - frames.len();
        self.rest.drain(..done);
        Ok(())
    }
}

/// Makes lines of the chunks of a log.
#[derive(Default)]
pub(crate) struct LineReader {
    /// With a terminal, the stream has no frames.
    tty: bool,
    frames: Frames,
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
            tty,
            timestamps,
            ..Self::default()
        }
    }

    /// Adds a chunk, and calls `each` with the lines that end in it.
    pub(crate) fn push(
        &mut self,
        chunk: &[u8],
        each: &mut impl FnMut(Line),
    ) -> Result<(), EngineError> {
        self.has_begun |= !chunk.is_empty();
        if self.tty {
            self.add(1, false, chunk, each);
            return Ok(());
        }
        let mut frames = std::mem::take(&mut self.frames);
        let pushed = frames.push(chunk, |source, bytes| self.add(source, true, bytes, each));
        self.frames = frames;
        pushed
    }

    /// Adds bytes of a stream. A record may be a part of a long line.
    fn add(&mut self, source: usize, is_record: bool, bytes: &[u8], each: &mut impl FnMut(Line)) {
        let (open, mut bytes) = (&mut self.open[source], bytes);
        // A line of several records has a timestamp in each; keep only the first.
        if self.timestamps && is_record && !open.bytes.is_empty() {
            bytes = split_time(bytes).1;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = piece.strip_suffix(b"\n");
            open.push(line.unwrap_or(piece));
            if line.is_some() {
                each(std::mem::take(open).end(self.timestamps));
            }
        }
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
#[derive(Default)]
pub(crate) struct Window {
    log: Log,
    /// The line before those that are kept.
    before: Line,
    /// Bytes of the kept lines that are shown.
    bytes: usize,
    max_lines: usize,
    max_bytes: usize,
}

impl Window {
    /// A window of at most `max_lines` lines, of which about `max_bytes` bytes are shown.
    pub(crate) fn new(max_lines: usize, max_bytes: usize) -> Self {
        Self {
            max_lines,
            max_bytes,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, line: Line) {
        self.bytes += shown_bytes(&line);
        let log = &mut self.log;
        log.lines.push_back(line);
        loop {
            let too_many = log.lines.len() > self.max_lines;
            if !too_many && self.bytes <= self.max_bytes {
                break;
            }
            log.cut |= too_many;
            log.overflowed |= !too_many;
            let Some(oldest) = log.lines.pop_front() else {
                break;
            };
            self.bytes -= shown_bytes(&oldest);
            self.before = oldest;
        }
    }

    /// The kept lines, redacted as far as one line depends on the line before it.
    pub(crate) fn into_log(mut self, redactor: Redactor) -> Log {
        let mut redactor = LineRedactor::new(redactor);
        redactor.line(&self.before.text);
        for line in &mut self.log.lines {
            if let Some(shown) = redactor.line(&line.text)
                && redactor.needs_previous()
            {
                line.text = shown;
                self.log.hidden += 1;
            }
        }
        self.log
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
        let mut frame = vec![source, 0, 0, 0];
        frame.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        frame.extend(text.as_bytes());
        frame
    }

    #[test]
    fn frames_are_decoded_from_chunks_of_any_size() {
        let long = "x".repeat(16_384);
        let frames = [(1, "one\n"), (2, "two\n"), (1, ""), (1, &long)];
        let frames = frames.map(|(source, text)| frame(source, text)).concat();
        for (tty, stream, expected) in [
            (false, &*frames, format!("one\ntwo\n{long}")),
            (true, b"a\r\nb", "a\r\nb".to_owned()),
        ] {
            for size in [1, 3, 7, 8, 9, 100, 40_000] {
                let (mut reader, mut lines) = (LineReader::new(tty, false), Vec::new());
                for chunk in stream.chunks(size) {
                    reader
                        .push(chunk, &mut |line| lines.push(line.text))
                        .unwrap();
                }
                reader.finish(&mut |line| lines.push(line.text));
                assert_eq!(lines.join("\n"), expected, "{size}");
            }
        }
        let mut reader = LineReader::new(false, false);
        assert!(reader.push(b"<html>no log</html>", &mut |_| {}).is_err());
    }

    fn read(frames: &[Vec<u8>]) -> Vec<Line> {
        let (mut reader, mut lines) = (LineReader::new(false, false), Vec::new());
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
            read(&frames).into_iter().for_each(|line| window.push(line));
            let log = window.into_log(Redactor::new(true));
            let state = (&*log.text(), log.cut, log.overflowed);
            assert_eq!(state, (expected, cut, overflowed));
        }
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let part = frame(1, &"a".repeat(MAX_LINE_BYTES));
        let lines = read(&[part.clone(), part]);
        assert!(lines[0].text.ends_with("… (1048576 more bytes)"));
    }
}
