//! The exchange of one request: reads its response, and the other messages on its stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use mcp_core::jsonrpc::{Frame, Message, Notification, ResponseIn};
use serde_json::value::RawValue;

use super::pool::Body;
use super::sse::Parser;
use super::{DETACHED_TIMEOUT, Http, is_event_stream};
use crate::calls_in_flight::Recipient;
use crate::inbound::outcome;
use crate::response_routes::{self, ResponseRoutes};
use crate::{Error, invalid_answer};

/// The interval before a stream is resumed, unless the server sends another.
pub(super) const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The lower limit of the interval that the server sends.
pub(super) const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A request that waits for its response.
pub(super) struct Exchange<'a> {
    http: &'a Http,
    id: u64,
    /// `None` for the GET stream, which belongs to no request.
    routes: Option<Arc<ResponseRoutes>>,
    /// A broken stream may be resumed.
    is_resumable: bool,
}

type Outcome = Result<Box<RawValue>, Error>;

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
    pub(super) async fn response(&self, response: Response<Body>) -> Outcome {
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
        let is_stream = is_event_stream(response.headers());
        let body = response.into_body();
        if is_stream {
            // Boxed, since it is large and most responses need none of it.
            let outcome = Box::pin(self.follow_streams(body)).await?;
            let ended = || Err(client.closed("the stream ended before the answer"));
            return outcome.unwrap_or_else(ended);
        }
        let body = client.read(body, client.max_message()).await?;
        let other = || {
            let fault = format!("its answer has the id of another request, not {}", self.id);
            Err(client.protocol_error(fault))
        };
        self.take(&body)?.unwrap_or_else(other)
    }

    /// Reads streams until the response: a server may end a stream early and expect the client to
    /// resume it. Returns `None` if the streams ended without a response.
    pub(super) async fn follow_streams(&self, mut body: Body) -> Result<Option<Outcome>, Error> {
        let mut parser = Parser::new(self.http.0.client.max_message());
        loop {
            let broken = match self.follow(&mut body, &mut parser).await {
                Ok(Some(outcome)) => {
                    drain(body);
                    return Ok(Some(outcome));
                }
                Ok(None) => None,
                Err(error @ Error::Closed { .. }) => Some(error),
                Err(error) => return Err(error),
            };
            body = match (self.resume(&mut parser).await, broken) {
                (Some(rest), _) => rest,
                (None, None) => return Ok(None),
                (None, Some(broken)) => return Err(broken),
            };
        }
    }

    async fn follow(&self, body: &mut Body, parser: &mut Parser) -> Result<Option<Outcome>, Error> {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.http.0.client.cut_off(&error))?;
            if let Ok(data) = frame.into_data()
                && let Some(outcome) = self.feed(parser, &data)?
            {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    /// The rest of a stream, if it named its last event.
    async fn resume(&self, parser: &mut Parser) -> Option<Body> {
        parser.restart();
        let last_event = parser.last_id().filter(|_| self.is_resumable)?;
        let interval = parser.retry().unwrap_or(DEFAULT_RETRY_INTERVAL);
        tokio::time::sleep(interval.max(MIN_RETRY_INTERVAL)).await;
        let Http(http) = self.http;
        let session = http.session.headers();
        // Not the error of the resumption: the request itself was sent.
        let response = http.client.open_stream(Some(last_event), &session).await;
        let response = response.ok()?;
        is_event_stream(response.headers()).then(|| response.into_body())
    }

    fn feed(&self, parser: &mut Parser, data: &Bytes) -> Result<Option<Outcome>, Error> {
        let client = &self.http.0.client;
        let events = parser.feed(data).map_err(|_| {
            let limit = client.max_message();
            client.protocol_error(format!("an event is longer than {limit} bytes"))
        })?;
        let messages = events
            .into_iter()
            .filter(|event| matches!(event.kind.as_slice(), b"" | b"message"));
        for event in messages {
            match self.take(&event.data) {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(Some(outcome)),
                Err(error @ Error::InvalidAnswer { .. }) => return Ok(Some(Err(error))),
                // Other invalid messages are skipped: the response may still come.
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Handles a message or a batch. Returns the outcome of our request if it is among them.
    fn take(&self, bytes: &[u8]) -> Result<Option<Outcome>, Error> {
        let Http(http) = self.http;
        let frame = Frame::decode(bytes).map_err(|error| {
            http.inbound.count(|all| &mut all.invalid_messages);
            tracing::debug!(peer = %http.client.peer(), fault = %error.fault, "not a message");
            match invalid_answer::find(bytes, &error.fault) {
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
        let id = response_routes::progress_token(notification.params);
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
pub(super) fn drain(mut body: Body) {
    if body.is_at_end() {
        return;
    }
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        // A server that continues to send loses the connection.
        let _ = tokio::time::timeout(DETACHED_TIMEOUT, rest).await;
    });
}
