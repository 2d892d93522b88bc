//! Reads the answers of the server and writes them to the client.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use mcp_core::jsonrpc::{Frame, Message};
use mcp_core::revision::Revision;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::Bridge;
use super::sent::{Kind, Sent, line};
use crate::Error;
use crate::http::exchange::{DEFAULT_RETRY_INTERVAL, MIN_RETRY_INTERVAL, drain};
use crate::http::is_event_stream;
use crate::http::pool::Body;
use crate::http::sse::Parser;

/// Attempts to resume a stream, one after the other.
const MAX_RESUMPTIONS: u32 = 10;

/// The upper limit of the interval between attempts to open the server's stream.
const MAX_STREAM_INTERVAL: Duration = Duration::from_secs(10);

impl Bridge {
    /// Writes the answer to a message, and all messages before it.
    pub(super) async fn response(
        &self,
        sent: &Sent,
        response: Response<Body>,
    ) -> Result<(), Error> {
        if matches!(
            response.status(),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT
        ) {
            return match sent.id() {
                Some(_) => Err(self
                    .client
                    .protocol_error("it accepted a request without answering it")),
                None => Ok(()),
            };
        }
        let is_stream = is_event_stream(response.headers());
        let body = response.into_body();
        if is_stream {
            return self.follow(sent, body).await;
        }
        let bytes = self.client.read(body, self.client.max_message()).await?;
        match self.pass(Some(sent), &bytes).await {
            Passed::NoMessage => Err(self
                .client
                .protocol_error("its answer is not a JSON-RPC message")),
            Passed::Answer | Passed::Other => Ok(()),
        }
    }

    /// Reads a stream until the answer; a stream that breaks is resumed.
    async fn follow(&self, sent: &Sent, mut body: Body) -> Result<(), Error> {
        let mut parser = Parser::new(self.client.max_message());
        let mut attempts = 0;
        loop {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { break };
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                let events = parser.feed(&data);
                let events =
                    events.map_err(|_| self.client.protocol_error("an event is too long"))?;
                for event in events.iter().filter(|event| is_message(&event.kind)) {
                    attempts = 0;
                    if let Passed::Answer = self.pass(Some(sent), &event.data).await {
                        drain(body);
                        return Ok(());
                    }
                }
            }
            if sent.id().is_none() {
                return Ok(());
            }
            let ended = || self.client.closed("the stream ended before the answer");
            body = loop {
                parser.restart();
                let last = parser.last_id().filter(|_| sent.version.is_none());
                let last = last
                    .filter(|_| attempts < MAX_RESUMPTIONS)
                    .ok_or_else(ended)?;
                attempts += 1;
                sleep(interval(&parser)).await;
                let session = self.session.headers();
                match self.client.open_stream(Some(last), &session).await {
                    Ok(response) if is_event_stream(response.headers()) => {
                        break response.into_body();
                    }
                    Err(Error::Unreachable { .. }) => {}
                    Ok(_) | Err(_) => return Err(ended()),
                }
            };
        }
    }

    /// Follows the server's own stream as long as the client is there.
    pub(super) async fn follow_server(self: Arc<Self>) {
        let mut parser = Parser::new(self.client.max_message());
        let mut wait = Duration::ZERO;
        loop {
            let session = self.session.headers();
            match self.client.open_stream(parser.last_id(), &session).await {
                Ok(response) if is_event_stream(response.headers()) => {
                    wait = Duration::ZERO;
                    self.read_stream(&mut parser, response.into_body()).await;
                }
                // A server without such a stream.
                Err(Error::Http { status: 405, .. }) => return,
                Err(Error::SessionLost { .. }) => {
                    parser = Parser::new(self.client.max_message());
                    if let Err(error) = self.renew(&session).await {
                        tracing::debug!(%error, "the session was not renewed");
                    }
                }
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "the server's stream is not open"),
            }
            parser.restart();
            sleep(interval(&parser).max(wait)).await;
            wait = (wait * 2).clamp(MIN_RETRY_INTERVAL, MAX_STREAM_INTERVAL);
        }
    }

    async fn read_stream(&self, parser: &mut Parser, mut body: Body) {
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let Ok(events) = parser.feed(&data) else {
                return;
            };
            for event in events.iter().filter(|event| is_message(&event.kind)) {
                self.pass(None, &event.data).await;
            }
        }
    }

    /// Writes a message of the server; `sent` is the request to whose answer it belongs.
    async fn pass(&self, sent: Option<&Sent>, bytes: &[u8]) -> Passed {
        let Ok(frame) = Frame::decode(bytes) else {
            tracing::debug!(peer = %self.client.peer(), "not a message");
            return Passed::NoMessage;
        };
        let mut passed = Passed::Other;
        if let (Some(sent), Frame::Single(Message::Response(response))) = (sent, &frame) {
            let id = response.id.as_ref().map(|id| id.as_json());
            // An error without an id: the server could not read the request.
            if id == sent.id() || id.is_none() {
                passed = Passed::Answer;
                if let Ok(result) = response.outcome {
                    self.learn(sent, result);
                }
            }
        }
        if !sent.is_some_and(|sent| sent.is_silent) {
            self.write(line(bytes)).await;
        }
        passed
    }

    /// Takes from a result what later messages need: the revision, and the headers of tools.
    fn learn(&self, sent: &Sent, result: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Handshake {
            protocol_version: String,
        }
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
        }
        match sent.kind {
            Kind::Handshake(_) => {
                let handshake: Option<Handshake> = serde_json::from_str(result.get()).ok();
                let revision = handshake.and_then(|made| Revision::parse(&made.protocol_version));
                if let Some(revision) = revision {
                    self.session.set_revision(revision.as_str());
                }
            }
            _ if sent.method == "tools/list" && sent.version.is_some() => {
                let list: Option<List<'_>> = serde_json::from_str(result.get()).ok();
                for tool in list.into_iter().flat_map(|list| list.tools) {
                    self.header_params.register(self.client.peer(), tool);
                }
            }
            _ => {}
        }
    }
}

/// The part of a message in the exchange of a request.
enum Passed {
    Answer,
    Other,
    NoMessage,
}

fn is_message(kind: &[u8]) -> bool {
    matches!(kind, b"" | b"message")
}

fn interval(parser: &Parser) -> Duration {
    let interval = parser.retry().unwrap_or(DEFAULT_RETRY_INTERVAL);
    interval.max(MIN_RETRY_INTERVAL)
}
