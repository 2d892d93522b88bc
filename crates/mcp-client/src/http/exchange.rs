//! One request and everything that comes back for it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use mcp_core::jsonrpc::{Frame, Message, Notification, ResponseIn};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::sse::Parser;
use super::{DETACHED, Http};
use crate::incoming;
use crate::{Error, Progress, RpcError};

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
    progress: Option<mpsc::Sender<Progress>>,
}

type Answer = Result<Box<RawValue>, Error>;

impl<'a> Exchange<'a> {
    pub(super) fn new(http: &'a Http, id: u64, progress: Option<mpsc::Sender<Progress>>) -> Self {
        Self {
            http,
            id,
            id_json: id.to_string(),
            progress,
        }
    }

    /// Reads the answer from a response with a status of 2xx.
    pub(super) async fn answer(&self, response: Response<Incoming>) -> Answer {
        let connection = &self.http.0.connection;
        if matches!(
            response.status(),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT
        ) {
            return Err(connection.broken("it accepted a request without answering it"));
        }
        if is_stream(response.headers()) {
            return self.stream(response.into_body()).await;
        }
        let body = connection
            .read(response.into_body(), connection.max_message())
            .await?;
        self.take(&body)?
            .unwrap_or_else(|| Err(connection.broken("its answer is to another request")))
    }

    /// Follows the streams on which the answer may come: a server may end one early and expects us
    /// to ask for the rest.
    async fn stream(&self, mut body: Incoming) -> Answer {
        let mut parser = Parser::new(self.http.0.connection.max_message());
        loop {
            let cut = match self.follow(&mut body, &mut parser).await {
                Ok(Some(answer)) => {
                    drain(body);
                    return answer;
                }
                Ok(None) => self
                    .http
                    .0
                    .connection
                    .closed("the stream ended before the answer"),
                Err(error @ Error::Closed { .. }) => error,
                Err(error) => return Err(error),
            };
            body = self.resume(&mut parser, cut).await?;
        }
    }

    async fn follow(
        &self,
        body: &mut Incoming,
        parser: &mut Parser,
    ) -> Result<Option<Answer>, Error> {
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

    /// The rest of a stream that named its last event; `cut` if it did not, or has no rest.
    async fn resume(&self, parser: &mut Parser, cut: Error) -> Result<Incoming, Error> {
        parser.restart();
        let Some(last) = parser.last_id() else {
            return Err(cut);
        };
        tokio::time::sleep(parser.retry().unwrap_or(RETRY).max(MIN_RETRY)).await;
        let session = self.http.0.session.headers();
        match self.http.0.connection.resume(last, &session).await {
            Ok(response) if is_stream(response.headers()) => Ok(response.into_body()),
            // Whatever it says now, the request itself was sent.
            Ok(_) | Err(_) => Err(cut),
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
        for event in events {
            if matches!(event.kind.as_slice(), b"" | b"message")
                && let Some(answer) = self.take(&event.data)?
            {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Takes in what the server sent and returns the answer if it is there.
    fn take(&self, bytes: &[u8]) -> Result<Option<Answer>, Error> {
        let connection = &self.http.0.connection;
        let frame = Frame::decode(bytes).map_err(|error| {
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
                Message::Notification(notification) => self.note(&notification),
                Message::Request(request) => {
                    let reply = self.http.0.inbox.request(&request, Some(self.id));
                    reply
                        .into_iter()
                        .for_each(|reply| self.http.send_detached(reply));
                }
            }
        }
        Ok(answer)
    }

    /// The outcome, if it is the one of our request. An error without an id is ours too: the server
    /// could not read the request.
    fn mine(&self, response: &ResponseIn<'_>) -> Option<Answer> {
        match (&response.id, response.outcome) {
            (Some(id), _) if id.as_json() != self.id_json => None,
            (None, Ok(_)) => None,
            (_, Ok(result)) => Some(Ok(result.to_owned())),
            (_, Err(error)) => Some(Err(match serde_json::from_str::<RpcError>(error.get()) {
                Ok(error) => Error::Rpc(error),
                Err(_) => self.http.0.connection.broken("its error object is not one"),
            })),
        }
    }

    fn note(&self, notification: &Notification<'_>) {
        if notification.method == "notifications/progress"
            && let Some(reports) = &self.progress
            && let Some((token, report)) = incoming::progress(notification.params)
            && token == self.id
        {
            // A full channel loses the report; the answer matters more.
            let _ = reports.try_send(report);
            return;
        }
        self.http.0.inbox.notification(notification);
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Reads a stream to its end after the answer has come, so that its connection can be used again.
fn drain(mut body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        // A server that goes on sending loses the connection.
        let _ = tokio::time::timeout(DETACHED, rest).await;
    });
}
