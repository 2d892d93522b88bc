//! A collector, and what it answers to requests of OTLP/HTTP.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use mcp_client::Poster;
use tokio::time::timeout;

use crate::protobuf::{Fields, Value};
use crate::settings::Destination;

/// Limit of a collector's text in the log, in characters.
const MAX_TEXT: usize = 200;

/// A collector for one kind of data.
pub(crate) struct Collector {
    poster: Poster,
    timeout: Duration,
    /// True if the last request failed. Only a change is logged.
    is_failing: bool,
    /// The last complaint about a part that it did not take. Only a change is logged.
    complaint: Option<Complaint>,
}

/// The end of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It was accepted, without so many spans or data points.
    Accepted { rejected: u64 },
    /// It may succeed later, not before this time.
    TryAgain(Option<Duration>),
    /// It will not be accepted.
    Refused,
}

/// `ExportTracePartialSuccess` and `ExportMetricsPartialSuccess`, which have the same fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Complaint {
    rejected: u64,
    message: String,
}

impl Collector {
    /// Prepares to send to it. Does not connect.
    pub(crate) fn new(destination: Destination) -> io::Result<Self> {
        let poster = Poster::new(destination.endpoint, "application/x-protobuf");
        Ok(Self {
            poster: poster.map_err(io::Error::other)?,
            timeout: destination.timeout,
            is_failing: false,
            complaint: None,
        })
    }

    /// Sends a request. The log tells a first failure, and its end.
    pub(crate) async fn post(&mut self, body: Bytes) -> Sent {
        let answered = timeout(self.timeout, self.poster.post(body)).await;
        let (sent, problem) = match answered {
            Ok(Ok(answer)) => match answer.status {
                200..300 => {
                    let rejected = self.hear(Complaint::read(&answer.body));
                    (Sent::Accepted { rejected }, None)
                }
                status @ (429 | 502..=504) => {
                    let problem = format!("it answered with status {status}");
                    (Sent::TryAgain(answer.retry_after), Some(problem))
                }
                status => (
                    Sent::Refused,
                    Some(format!("it answered with status {status}")),
                ),
            },
            // Names the address and the kind of failure, and no header.
            Ok(Err(error)) => (Sent::TryAgain(None), Some(error.to_string())),
            Err(_) => (
                Sent::TryAgain(None),
                Some("it did not answer in time".to_owned()),
            ),
        };
        let peer = self.poster.peer();
        match (problem, self.is_failing) {
            (Some(problem), false) => tracing::warn!(
                "OpenTelemetry: cannot export to {peer}: {problem}. Calls are not affected; spans are dropped \
                 when too many wait"
            ),
            (None, true) => tracing::info!("OpenTelemetry: {peer} accepts the export again"),
            _ => {}
        }
        self.is_failing = !matches!(sent, Sent::Accepted { .. });
        sent
    }

    /// Logs a complaint that differs from the last one, and returns how much was rejected.
    fn hear(&mut self, complaint: Option<Complaint>) -> u64 {
        let rejected = complaint.as_ref().map_or(0, |complaint| complaint.rejected);
        let said = complaint.as_ref().map(|complaint| &complaint.message);
        if let Some(message) = said
            && Some(message) != self.complaint.as_ref().map(|known| &known.message)
        {
            let peer = self.poster.peer();
            tracing::warn!(
                "OpenTelemetry: {peer} did not take all: {rejected} rejected: {message:?}"
            );
        }
        self.complaint = complaint;
        rejected
    }
}

impl Complaint {
    /// Reads the body of an answer; `None` if all was taken without a word.
    fn read(body: &[u8]) -> Option<Self> {
        let part = Fields(body).find_map(|field| match field {
            (1, Value::Bytes(part)) => Some(part),
            _ => None,
        });
        let mut complaint = Self::default();
        for field in Fields(part?) {
            match field {
                (1, Value::Number(rejected)) => complaint.rejected = rejected,
                (2, Value::Bytes(text)) => {
                    let text = String::from_utf8_lossy(text);
                    complaint.message = text.chars().take(MAX_TEXT).collect();
                }
                _ => {}
            }
        }
        (complaint != Self::default()).then_some(complaint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_success_is_read_and_damaged_answers_are_none() {
        let complaint = |rejected, message: &str| Complaint {
            rejected,
            message: message.to_owned(),
        };
        for (body, expected) in [
            (&b""[..], None),
            (b"\x0a\x00", None),
            (b"\x0a\x02\x08\x07", Some(complaint(7, ""))),
            (
                b"\x0a\x0a\x08\xac\x02\x12\x05quota",
                Some(complaint(300, "quota")),
            ),
            // A later version has more fields.
            (
                b"\x11\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x04\x12\x02ok",
                Some(complaint(0, "ok")),
            ),
            (b"\x0a\xff\x01x", None),
            (b"{\"partialSuccess\":{}}", None),
        ] {
            assert_eq!(Complaint::read(body), expected, "{body:?}");
        }
        let long = [b"\x0a\xae\x02\x12\xab\x02", &[b'x'; 299][..]].concat();
        let read = Complaint::read(&long).unwrap();
        assert_eq!(read.message.len(), MAX_TEXT);
    }
}
