//! One request and everything that comes back for it.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_core::jsonrpc::{Frame, Message, ResponseIn};
use serde_json::value::RawValue;

use super::pool::Body;
use super::sse::Parser;
use super::{DETACHED, Http, is_stream};
use crate::Error;
use crate::inbound::outcome;
use crate::sink::{self, Sink};

/// How long to wait before asking for the rest of a stream, unless the server says.
const RETRY: Duration = Duration::from_secs(1);
/// And the least, whatever the server says.
const MIN_RETRY: Duration = Duration::from_millis(50);

/// A request that waits for its answer.
pub(super) struct Exchange<'a> {
    http: &'a Http,
    id: u64,
    /// The id as the server has to repeat it.
    id_json: String,
    sink: Sink,
    /// The stream may be taken up again where it broke.
    is_resumable: bool,
}

type Answer = Result<Box<RawValue>, Error>;

impl<'a> Exchange<'a> {
    pub(super) fn new(http: &'a Http, id: u64, sink: Sink) -> Self {
        Self {
            http,
            id,
            id_json: id.to_string(),
            sink,
            is_resumable: true,
        }
    }

    pub(super) fn resumable(mut self, is_resumable: bool) -> Self {
        self.is_resumable = is_resumable;
        self
    }

    /// Reads the answer from a response with a status of 2xx.
    pub(super) async fn answer(&self, response: Response<Body>) -> Answer {
        let connection = &self.http.0.connection;
        if matches!(
            response.status(),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT
        ) {
            return Err(connection.broken("it accepted a request without answering it"));
        }
        if is_stream(response.headers()) {
            // Large, and not in the future of an answer that comes at once.
            return Box::pin(self.stream(response.into_body())).await;
        }
        let body = connection
            .read(response.into_body(), connection.max_message())
            .await?;
        self.take(&body)?
            .unwrap_or_else(|| Err(connection.broken("its answer is to another request")))
    }

    /// Follows the streams on which the answer may come: a server may end one early and expects us
    /// to ask for the rest.
    async fn stream(&self, body: Body) -> Answer {
        match self.follow_streams(body).await? {
            Some(answer) => answer,
            None => Err(self
                .http
                .0
                .connection
                .closed("the stream ended before the answer")),
        }
    }

    /// Follows a stream on which no answer comes, until the server ends it for good.
    pub(super) async fn follow_all(&self, body: Body) -> Result<(), Error> {
        self.follow_streams(body).await.map(drop)
    }

    /// `None` when the streams have ended without an answer.
    async fn follow_streams(&self, mut body: Body) -> Result<Option<Answer>, Error> {
        let mut parser = Parser::new(self.http.0.connection.max_message());
        loop {
            let cut = match self.follow(&mut body, &mut parser).await {
                Ok(Some(answer)) => {
                    drain(body);
                    return Ok(Some(answer));
                }
                Ok(None) => None,
                Err(error @ Error::Closed { .. }) => Some(error),
                Err(error) => return Err(error),
            };
            body = match (self.resume(&mut parser).await, cut) {
                (Some(rest), _) => rest,
                (None, None) => return Ok(None),
                (None, Some(cut)) => return Err(cut),
            };
        }
    }

    async fn follow(&self, body: &mut Body, parser: &mut Parser) -> Result<Option<Answer>, Error> {
        let connection = &self.http.0.connection;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| connection.cut_off(&error))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if let Some(answer) = self.feed(parser, &data)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The rest of a stream that named its last event, if it has one.
    async fn resume(&self, parser: &mut Parser) -> Option<Body> {
        parser.restart();
        let last = parser.last_id().filter(|_| self.is_resumable)?;
        tokio::time::sleep(parser.retry().unwrap_or(RETRY).max(MIN_RETRY)).await;
        let session = self.http.0.session.headers();
        match self.http.0.connection.resume(Some(last), &session).await {
            Ok(response) if is_stream(response.headers()) => Some(response.into_body()),
            // Whatever it says now, the request itself was sent.
            Ok(_) | Err(_) => None,
        }
    }

    fn feed(&self, parser: &mut Parser, data: &Bytes) -> Result<Option<Answer>, Error> {
        let connection = &self.http.0.connection;
        let events = parser.feed(data).map_err(|_| {
            connection.broken(format!(
                "an event is longer than {} bytes",
                connection.max_message()
            ))
        })?;
        let messages = events
            .into_iter()
            .filter(|event| matches!(event.kind.as_slice(), b"" | b"message"));
        // What is no message is skipped: the answer may still come.
        Ok(messages
            .filter_map(|event| self.take(&event.data).ok()?)
            .next())
    }

    /// Takes in what the server sent and returns the answer if it is there.
    fn take(&self, bytes: &[u8]) -> Result<Option<Answer>, Error> {
        let connection = &self.http.0.connection;
        let frame = Frame::decode(bytes).map_err(|error| {
            self.http.0.inbound.counting.invalid_messages();
            tracing::debug!(peer = %connection.peer(), fault = %error.fault, "not a message");
            connection.broken("its answer is not a JSON-RPC message")
        })?;
        let messages = match frame {
            Frame::Single(message) => vec![message],
            Frame::Batch(items) => items.into_iter().flatten().collect(),
        };
        let mut answer = None;
        for message in messages {
            match message {
                Message::Response(response) => answer = answer.or(self.mine(&response)),
                Message::Notification(notification) => {
                    let about = sink::progress_token(notification.params);
                    let sink = about.is_none_or(|id| id == self.id).then_some(&self.sink);
                    self.http.0.inbound.notification(&notification, sink);
                }
                Message::Request(request) => {
                    let http = self.http.clone();
                    let send = async move |reply| http.send_in_time(reply).await;
                    let sink = Some(&self.sink);
                    self.http.0.inbound.request(&request, sink, send);
                }
            }
        }
        Ok(answer)
    }

    /// The outcome, if it is the one of our request. An error without an id is ours too: the server
    /// could not read the request.
    fn mine(&self, response: &ResponseIn<'_>) -> Option<Answer> {
        let is_mine = match &response.id {
            Some(id) => id.as_json() == self.id_json,
            None => response.outcome.is_err(),
        };
        if !is_mine {
            self.http.0.inbound.counting.unmatched_response();
            return None;
        }
        Some(outcome(response, self.http.0.connection.peer()))
    }
}

/// Reads a stream to its end after the answer has come, so that its connection can be used again.
fn drain(mut body: Body) {
    if body.is_at_end() {
        return;
    }
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        // A server that goes on sending loses the connection.
        let _ = tokio::time::timeout(DETACHED, rest).await;
    });
}
