//! The exchange of one request: reads its response, and the other messages on its stream.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_core::jsonrpc::{Frame, Message, Notification, ResponseIn};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

use crate::Error;
use crate::error::unreadable_answer;
use crate::http::client::{HttpClient, cut_off};
use crate::http::{DETACHED_TIMEOUT, Http, is_event_stream};
use crate::inbound::{Outcome, Recipient, ResponseRoutes, outcome, progress_token};
use crate::message::MAX_MESSAGE;

/// The interval before a stream is resumed, unless the server sends another.
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The lower limit of the interval that the server sends.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// The interval to which it grows if the server ends its streams without sending anything.
const MAX_GROWN_INTERVAL: Duration = Duration::from_secs(5);
/// A stream ends after so many resumptions in a row that have failed.
const MAX_FAILED_RESUMPTIONS: u32 = 5;
/// A stream ends after so many resumptions in a row that have brought no message: eight minutes of empty answers.
const MAX_FRUITLESS_RESUMPTIONS: u32 = 100;

/// A request that waits for its response.
pub(super) struct Exchange<'a> {
    http: &'a Http,
    id: u64,
    /// `None` for the GET stream, which belongs to no request.
    routes: Option<Arc<ResponseRoutes>>,
    /// A broken stream may be resumed.
    is_resumable: bool,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        http: &'a Http,
        id: u64,
        routes: Option<Arc<ResponseRoutes>>,
        is_resumable: bool,
    ) -> Self {
        Self {
            http,
            id,
            routes,
            is_resumable,
        }
    }

    /// Reads the JSON-RPC response from an HTTP response with a status of 2xx.
    pub(super) async fn response(&self, response: Response) -> Outcome {
        let client = &self.http.0.client;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Err(client.protocol_error("it accepted a request without answering it"));
        }
        if let Some(encoding) = foreign_encoding(response.headers()) {
            let fault =
                format!("its answer has the Content-Encoding {encoding:?}, which was not accepted");
            return Err(client.protocol_error(fault));
        }
        if is_event_stream(response.headers()) {
            // Boxed, since it is large and most responses need none of it.
            let outcome = Box::pin(self.follow_streams(response)).await?;
            let ended = || Err(client.closed("the stream ended before the answer"));
            return outcome.unwrap_or_else(ended);
        }
        let body = client.read(response, MAX_MESSAGE).await?;
        let other = || {
            let fault = format!("its answer has the id of another request, not {}", self.id);
            Err(client.protocol_error(fault))
        };
        self.take(&body)?.unwrap_or_else(other)
    }

    /// Reads streams until the response: a server may end a stream early and expect the client to
    /// resume it. Returns `None` if the streams ended without a response.
    pub(super) async fn follow_streams(
        &self,
        response: Response,
    ) -> Result<Option<Outcome>, Error> {
        let client = &self.http.0.client;
        let mut events = client.events(response);
        let mut resumption = Resumption::default();
        loop {
            let mut broken = None;
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error @ Error::Closed { .. }) => {
                        broken = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                resumption.note(&event);
                let outcome = match message(event).map(|text| self.take(text.as_bytes())) {
                    Some(Ok(Some(outcome))) => outcome,
                    Some(Err(error @ Error::InvalidAnswer { .. })) => Err(error),
                    Some(Ok(None)) => {
                        resumption.fruitless = 0;
                        continue;
                    }
                    // Other invalid messages are skipped: the response may still come.
                    Some(Err(_)) | None => continue,
                };
                drain(events);
                return Ok(Some(outcome));
            }
            events = match (self.resume(&mut resumption).await, broken) {
                (Some(rest), _) => client.events(rest),
                (None, None) => return Ok(None),
                (None, Some(broken)) => return Err(broken),
            };
        }
    }

    /// The rest of a stream, if it named its last event.
    async fn resume(&self, resumption: &mut Resumption) -> Option<Response> {
        let Http(http) = self.http;
        for _ in 0..MAX_FAILED_RESUMPTIONS {
            let last_event = resumption.last_event.clone();
            let last_event = last_event.filter(|id| self.is_resumable && !id.is_empty())?;
            tokio::time::sleep(resumption.interval()?).await;
            resumption.fruitless += 1;
            let session = http.session.lock().clone();
            // Not the error of the resumption: the request itself was sent.
            match http.client.open_stream(Some(&last_event), &session).await {
                Ok(response) => return Some(response),
                Err(Error::Protocol { .. }) => return None,
                Err(error) if error.is_transport_failure() => {
                    tracing::debug!(peer = %http.client.peer(), %error, "stream not resumed");
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// Handles a message or a batch. Returns the outcome of our request if it is among them.
    fn take(&self, bytes: &[u8]) -> Result<Option<Outcome>, Error> {
        let Http(http) = self.http;
        let frame = Frame::decode(bytes).map_err(|error| {
            http.inbound.count(|all| &mut all.invalid_messages);
            tracing::debug!(peer = %http.client.peer(), fault = %error.fault, "not a message");
            match unreadable_answer(bytes, &error.fault) {
                Some((id, fault)) if id == self.id => {
                    Error::invalid_answer(http.client.peer(), fault)
                }
                _ => {
                    let fault = format!("its answer is not a JSON-RPC message: {}", error.fault);
                    http.client.protocol_error(fault)
                }
            }
        })?;
        let messages = match frame {
            Frame::Single(message) => return Ok(self.receive(message)),
            Frame::Batch(items) => items.into_iter().flatten(),
        };
        let mut outcome = None;
        for message in messages {
            outcome = outcome.or(self.receive(message));
        }
        Ok(outcome)
    }

    /// Handles one message. Returns the outcome of our request if it is its response.
    fn receive(&self, message: Message<'_>) -> Option<Outcome> {
        match message {
            Message::Response(response) => return self.own_outcome(&response),
            Message::Notification(notification) => self.on_notification(&notification),
            Message::Request(request) => {
                let http = self.http.clone();
                let send = async move |reply| http.send_detached(reply).await;
                let Http(http) = self.http;
                let recipient = match &self.routes {
                    Some(routes) => Recipient::Call(routes.clone()),
                    None => http.inbound.calls.recipient(),
                };
                http.inbound.request(&request, recipient, send);
            }
        }
        None
    }

    fn on_notification(&self, notification: &Notification<'_>) {
        let inbound = &self.http.0.inbound;
        let Some(routes) = self.routes.as_deref() else {
            return inbound.unrelated_notification(notification);
        };
        let id = progress_token(notification.params);
        let routes = id.is_none_or(|id| id == self.id).then_some(routes);
        inbound.notification(notification, routes);
    }

    /// The outcome of our request, if this is its response. So is an error without an id: the server
    /// could not read the request.
    fn own_outcome(&self, response: &ResponseIn<'_>) -> Option<Outcome> {
        let is_own = match &response.id {
            Some(id) => id.as_json().parse() == Ok(self.id),
            None => response.outcome.is_err(),
        };
        if !is_own {
            let inbound = &self.http.0.inbound;
            inbound.count(|all| &mut all.unmatched_responses);
            return None;
        }
        self.http.0.inbound.calls.answered(self.id);
        Some(outcome(response, self.http.0.client.peer()))
    }
}

/// Returns a content encoding, which the client never accepts.
fn foreign_encoding(headers: &HeaderMap) -> Option<&HeaderValue> {
    let encoding = headers.get(header::CONTENT_ENCODING)?;
    (encoding != "identity" && !encoding.is_empty()).then_some(encoding)
}

/// Reads a stream to its end after the response, so that its connection can be used again.
fn drain(mut events: Events) {
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = events.next().await {} };
        // A server that continues to send loses the connection.
        let _ = tokio::time::timeout(DETACHED_TIMEOUT, rest).await;
    });
}

/// The place and the time to resume a stream.
#[derive(Default)]
struct Resumption {
    /// The id of the last event that had one.
    last_event: Option<String>,
    /// The interval that the server asks for.
    retry: Option<Duration>,
    /// The number of resumptions since the last message.
    fruitless: u32,
}

impl Resumption {
    fn note(&mut self, event: &Sse) {
        if event.id.is_some() {
            self.last_event.clone_from(&event.id);
        }
        self.retry = event.retry.map(Duration::from_millis).or(self.retry);
    }

    /// The time to wait before the next resumption: the interval of the server, and longer after each that
    /// brought nothing. `None` after too many of them.
    fn interval(&self) -> Option<Duration> {
        if self.fruitless >= MAX_FRUITLESS_RESUMPTIONS {
            return None;
        }
        let asked = self.retry.unwrap_or(DEFAULT_RETRY_INTERVAL);
        let grown = MIN_RETRY_INTERVAL * 2_u32.saturating_pow(self.fruitless.min(7));
        Some(asked.max(grown.min(MAX_GROWN_INTERVAL)))
    }
}

/// The events of a response. After an error there are no more.
pub(crate) type Events = Pin<Box<dyn Stream<Item = Result<Sse, Error>> + Send>>;

impl HttpClient {
    pub(crate) fn events(&self, response: Response) -> Events {
        let (peer, reader) = (self.peer().clone(), self.peer().clone());
        let mut size = EventSize::default();
        let pieces = response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(|error| cut_off(&peer, &error))?;
            if size.grows_past(MAX_MESSAGE, &piece) {
                let fault = format!("an event is longer than {MAX_MESSAGE} bytes");
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
    fn interval_is_that_of_the_server_and_grows_when_nothing_comes() {
        let mut resumption = Resumption::default();
        for (data, retry, fruitless, milliseconds) in [
            ("", None, 0, Some(1000)),
            ("", Some(0), 0, Some(50)),
            ("", None, 3, Some(400)),
            ("", None, 99, Some(5000)),
            // Data that is no message.
            ("x", None, 5, Some(1600)),
            ("", Some(7000), 99, Some(7000)),
            ("x", None, 100, None),
        ] {
            resumption.fruitless = fruitless;
            resumption.note(&Sse {
                id: Some("1".to_owned()),
                data: Some(data.to_owned()),
                retry,
                event: None,
            });
            let interval = milliseconds.map(Duration::from_millis);
            assert_eq!(resumption.interval(), interval, "{retry:?} {fruitless}");
        }
    }

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
