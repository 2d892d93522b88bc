//! Parses `text/event-stream` incrementally, as in the HTML standard.

use std::time::Duration;

/// One event that has data.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    /// The `event` field; empty means `message`.
    pub(crate) kind: Vec<u8>,
    /// The `data` lines, joined by newlines.
    pub(crate) data: Vec<u8>,
}

/// An event or a line is longer than the limit.
#[derive(Debug, PartialEq)]
pub(crate) struct TooLong;

/// An incremental parser of one event stream.
pub(crate) struct Parser {
    /// Limit of one event, in bytes.
    limit: usize,
    /// The incomplete line.
    line: Vec<u8>,
    event: Event,
    /// The `id` of the incomplete event.
    id: Option<Vec<u8>>,
    last_id: Option<Vec<u8>>,
    retry: Option<Duration>,
    /// The last line ended with CR; a LF that follows belongs to it.
    after_cr: bool,
    /// Nothing was read yet; a byte order mark may come.
    at_start: bool,
}

impl Parser {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: Event {
                kind: Vec::new(),
                data: Vec::new(),
            },
            id: None,
            last_id: None,
            retry: None,
            after_cr: false,
            at_start: true,
        }
    }

    /// The id of the last complete event that had one, for resumption.
    pub(super) fn last_id(&self) -> Option<&[u8]> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The retry interval, if the server sent one.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Drops the incomplete event, before the stream is resumed.
    pub(super) fn restart(&mut self) {
        *self = Self {
            last_id: self.last_id.take(),
            retry: self.retry,
            ..Self::new(self.limit)
        };
    }

    /// Parses the next bytes of the stream and returns the events that they complete.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() + self.event.data.len() > self.limit {
                return Err(TooLong);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                events.extend(self.take_line(part));
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                events.extend(self.take_line(&line));
            }
        }
        Ok(events)
    }

    fn take_line(&mut self, mut line: &[u8]) -> Option<Event> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.event.data.extend_from_slice(value);
                self.event.data.push(b'\n');
            }
            b"event" => self.event.kind = value.to_vec(),
            b"id" if !value.contains(&0) => self.id = Some(value.to_vec()),
            b"retry" => self.retry = milliseconds(value).or(self.retry),
            // Comments, which servers send as keepalive, and unknown fields.
            _ => {}
        }
        None
    }

    /// Ends the event. Without data it is skipped, but its id counts: servers send such an event
    /// first, so that a stream that breaks early can be resumed.
    fn dispatch(&mut self) -> Option<Event> {
        self.last_id = self.id.take().or(self.last_id.take());
        let kind = std::mem::take(&mut self.event.kind);
        let mut data = std::mem::take(&mut self.event.data);
        data.pop();
        (!data.is_empty()).then_some(Event { kind, data })
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        Event {
            kind: kind.into(),
            data: data.into(),
        }
    }

    /// Feeds the stream in two parts, split at every position, and byte by byte.
    #[track_caller]
    fn check(stream: &str, expected: &[Event]) -> Parser {
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            let mut parser = Parser::new(1024);
            let mut events = parser.feed(&bytes[..cut]).unwrap();
            events.extend(parser.feed(&bytes[cut..]).unwrap());
            assert_eq!(events, expected, "cut at {cut}");
        }
        let mut parser = Parser::new(1024);
        let mut events = Vec::new();
        for byte in bytes {
            events.extend(parser.feed(&[*byte]).unwrap());
        }
        assert_eq!(events, expected, "byte by byte");
        parser
    }

    #[test]
    fn every_line_end_ends_a_line() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = ["event: message", "data: {\"a\":1}", "", "data: 2", "", ""].join(end);
            check(&stream, &[event("message", r#"{"a":1}"#), event("", "2")]);
        }
    }

    #[test]
    fn data_lines_are_joined() {
        check(
            "data: {\ndata:  \"ä\": 1\ndata:}\n\n",
            &[event("", "{\n \"ä\": 1\n}")],
        );
        check("data\ndata\n\n", &[event("", "\n")]);
    }

    #[test]
    fn comments_and_unknown_fields_are_skipped() {
        check(
            ": ping\n\n:\nfoo: 1\nfoo\ndata: x\n: y\n\n",
            &[event("", "x")],
        );
    }

    #[test]
    fn a_byte_order_mark_may_start_the_stream() {
        check("\u{feff}data: x\n\n", &[event("", "x")]);
        check("data: x\n\n\u{feff}data: y\n\n", &[event("", "x")]);
    }

    #[test]
    fn incomplete_events_are_not_returned() {
        check("data: x\n", &[]);
        check("event: only\n\n", &[]);
    }

    #[test]
    fn ids_count_when_their_event_ends() {
        let parser = check(
            "id: 1\nretry: 20\ndata:\n\nid: 2\ndata: x\n\nid: 3\n",
            &[event("", "x")],
        );
        assert_eq!(parser.last_id(), Some(&b"2"[..]));
        assert_eq!(parser.retry(), Some(Duration::from_millis(20)));
        let parser = check(
            "id: 1\n\nid: a\0b\n\nretry: soon\n\ndata: x\n\n",
            &[event("", "x")],
        );
        assert_eq!(parser.last_id(), Some(&b"1"[..]));
        assert_eq!(parser.retry(), None);
        assert_eq!(check("id: 1\n\nid\n\n", &[]).last_id(), None);
    }

    #[test]
    fn neither_a_line_nor_an_event_grows_past_the_limit() {
        let mut parser = Parser::new(10);
        assert_eq!(parser.feed(b"data: 12345"), Err(TooLong));
        let mut parser = Parser::new(10);
        assert_eq!(parser.feed(b"data: 1234\ndata: 1234\n"), Err(TooLong));
        let mut parser = Parser::new(10);
        assert_eq!(parser.feed(b"data: 12\n\ndata: 34\n\n").unwrap().len(), 2);
        let mut parser = Parser::new(10);
        assert!((0..5).any(|_| parser.feed(b"1234") == Err(TooLong)));
    }
}
