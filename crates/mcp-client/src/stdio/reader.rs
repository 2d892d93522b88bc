//! The one who reads what a child writes.

use std::sync::Arc;

use mcp_core::jsonrpc::{Fault, Frame, Message, Notification, Request, ResponseIn};
use serde::Deserialize;
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::mpsc;

use super::lines::{self, Line};
use super::pending::Pending;
use crate::inbound::{Inbound, outcome};
use crate::sink;

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// Bytes that we show of a line that is no message.
const SHOWN: usize = 120;
/// Such lines that the log shows of one child: one that floods us must not flood the log.
const WARNINGS: u64 = 20;

/// Sorts the messages of a child.
pub(super) struct Reader {
    pub(super) peer: Arc<str>,
    pub(super) pending: Arc<Pending>,
    pub(super) inbound: Arc<Inbound>,
    pub(super) writer: mpsc::WeakSender<String>,
    pub(super) max_message: usize,
}

impl Reader {
    /// Reads until the child closes its stdout; says what it did wrong, if it did not just end.
    pub(super) async fn read(&self, stdout: impl AsyncRead + Unpin) -> Option<String> {
        let mut stdout = BufReader::with_capacity(BUFFER, stdout);
        let mut line = Vec::new();
        loop {
            match lines::next(&mut stdout, &mut line, self.max_message).await {
                Ok(Line::Whole) => {
                    if let Err(fault) = self.take(line.trim_ascii())
                        && self.inbound.counting.invalid_messages() < WARNINGS
                    {
                        let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
                        tracing::warn!(peer = %self.peer, %fault, line = ?shown, "not a message");
                    }
                }
                Ok(Line::Part) => {
                    return Some(format!(
                        "it wrote a line of more than {} bytes",
                        self.max_message
                    ));
                }
                Ok(Line::End) => return None,
                Err(error) => return Some(format!("its output cannot be read: {error}")),
            }
        }
    }

    /// Many servers greet on stdout. That is wrong, but harmless: the caller goes on.
    fn take(&self, line: &[u8]) -> Result<(), Fault> {
        if line.is_empty() {
            return Ok(());
        }
        match Frame::decode(line).map_err(|error| error.fault)? {
            Frame::Single(message) => self.sort(message),
            Frame::Batch(items) => items.into_iter().flatten().for_each(|item| self.sort(item)),
        }
        Ok(())
    }

    fn sort(&self, message: Message<'_>) {
        match message {
            Message::Response(response) => self.answer(&response),
            Message::Notification(notification) => self.note(&notification),
            Message::Request(request) => self.ask(&request),
        }
    }

    fn ask(&self, request: &Request<'_>) {
        let writer = self.writer.clone();
        let send = async move |reply| {
            // A child that asks without reading our answers does without them.
            if let Some(writer) = writer.upgrade() {
                let _ = writer.send_timeout(reply, super::BUSY).await;
            }
        };
        let sink = self.pending.only_sink();
        self.inbound.request(request, sink.as_deref(), send);
    }

    fn answer(&self, response: &ResponseIn<'_>) {
        let id = response.id.as_ref();
        let id = id.and_then(|id| id.as_json().parse().ok());
        let answer = outcome(response, &self.peer);
        if !id.is_some_and(|id| self.pending.answer(id, answer)) {
            self.inbound.counting.unmatched_response();
            tracing::debug!(peer = %self.peer, "an answer that nobody waits for");
        }
    }

    fn note(&self, notification: &Notification<'_>) {
        let params = notification.params;
        let sink = match &*notification.method {
            "notifications/progress" => {
                sink::progress_token(params).and_then(|id| self.pending.sink(id))
            }
            "notifications/subscriptions/acknowledged" => {
                sink::subscription(params).and_then(|id| self.pending.sink(id))
            }
            "notifications/cancelled" => {
                self.end_subscription(notification);
                None
            }
            "notifications/message" => self.pending.only_sink(),
            _ => None,
        };
        self.inbound.notification(notification, sink.as_deref());
    }

    /// In the modern era a server may cancel what listens to it, and nothing else.
    fn end_subscription(&self, notification: &Notification<'_>) {
        #[derive(Deserialize)]
        struct Cancelled {
            #[serde(rename = "requestId")]
            id: u64,
        }
        let params = notification.params;
        let cancelled = params.and_then(|params| serde_json::from_str(params.get()).ok());
        if let Some(Cancelled { id }) = cancelled
            && self.pending.sink(id).is_some_and(|sink| sink.listens())
        {
            let ended = self.pending.closed("it ended the subscription");
            self.pending.answer(id, Err(ended));
        }
    }
}
