//! The events of a response (`text/event-stream`), each of a limited size.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

use super::client::{HttpClient, cut_off};
use crate::Error;

/// The events of a response. After an error there are no more.
pub(crate) type Events = Pin<Box<dyn Stream<Item = Result<Sse, Error>> + Send>>;

impl HttpClient {
    /// Reads the events of a response.
    pub(crate) fn events(&self, response: Response) -> Events {
        let (peer, limit) = (self.peer().clone(), self.max_message());
        let reader = peer.clone();
        let mut size = EventSize::default();
        let pieces = response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(|error| cut_off(&peer, &error))?;
            if size.grows_past(limit, &piece) {
                let fault = format!("an event is longer than {limit} bytes");
                return Err(Error::protocol(&peer, fault));
            }
            Ok(piece)
        });
        let events = SseByteStream::new(pieces).map(move |event| {
            event.map_err(|error| {
                let body = match error {
                    sse_stream::Error::Body(error) => error.downcast::<Error>().ok(),
                    _ => None,
                };
                let invalid = || Error::protocol(&reader, "an event is not UTF-8");
                body.map_or_else(invalid, |error| *error)
            })
        });
        Box::pin(events)
    }
}

/// Returns the message of an event; `None` if it has none, or is of another kind.
pub(crate) fn message(event: Sse) -> Option<String> {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    event.data.filter(|data| is_message && !data.is_empty())
}

/// Measures the events of a stream.
#[derive(Default)]
struct EventSize {
    /// The bytes of the incomplete event.
    event: usize,
    /// The bytes of its last line.
    line: usize,
    last: u8,
}

impl EventSize {
    /// Adds the next bytes. Returns true if an event has more than `limit`.
    fn grows_past(&mut self, limit: usize, bytes: &[u8]) -> bool {
        for &byte in bytes {
            match byte {
                b'\n' if self.last == b'\r' => {}
                // An empty line ends the event.
                b'\n' | b'\r' if self.line == 0 => self.event = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => {
                    self.line += 1;
                    self.event += 1;
                }
            }
            self.last = byte;
            if self.event > limit {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_event_counts_and_not_the_stream() {
        for (stream, is_too_long) in [
            ("data: 12345", true),
            ("data: 1234\n\ndata: 1234\n\n", false),
            ("data: 1234\r\n\r\ndata: 1234\r\n\r\n", false),
            ("data: 1234\r\rdata: 1234\r\r", false),
            (": ping\n\n: ping\n\n", false),
            ("data: 1\ndata: 2\n", true),
            ("data: 1\r\ndata: 2\r\n", true),
        ] {
            let mut whole = EventSize::default();
            assert_eq!(
                whole.grows_past(10, stream.as_bytes()),
                is_too_long,
                "{stream:?}"
            );
            let mut size = EventSize::default();
            let mut bytes = stream.as_bytes().chunks(1);
            assert_eq!(bytes.any(|byte| size.grows_past(10, byte)), is_too_long);
        }
    }
}
