//! The one who reads what a child writes.

use std::sync::Arc;

use mcp_core::jsonrpc::{Fault, Frame, Message, Notification, ResponseIn};
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::mpsc;

use super::lines::{self, Line};
use super::pending::Pending;
use crate::incoming::{self, Inbox};
use crate::{Error, RpcError};

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// Longer lines of a log are cut.
const MAX_LOG_LINE: usize = 4 << 10;
/// Bytes that we show of a line that is no message.
const SHOWN: usize = 120;
/// Such lines that the log shows of one child: one that floods us must not flood the log.
const WARNINGS: u32 = 20;

/// Sorts the messages of a child.
pub(super) struct Reader {
    pub(super) peer: Arc<str>,
    pub(super) pending: Arc<Pending>,
    pub(super) inbox: Inbox,
    pub(super) writer: mpsc::WeakSender<String>,
    pub(super) max_message: usize,
}

impl Reader {
    /// Reads until the child closes its stdout; says what it did wrong, if it did not just end.
    pub(super) async fn read(&self, stdout: impl AsyncRead + Unpin) -> Option<String> {
        let mut stdout = BufReader::with_capacity(BUFFER, stdout);
        let mut line = Vec::new();
        let mut noise = 0;
        loop {
            match lines::next(&mut stdout, &mut line, self.max_message).await {
                Ok(Line::Whole) => {
                    if let Err(fault) = self.take(line.trim_ascii())
                        && noise < WARNINGS
                    {
                        noise += 1;
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
            Message::Request(request) => {
                let reply = self.inbox.request(&request, None);
                // A child that asks without reading our answers does without them.
                if let (Some(reply), Some(writer)) = (reply, self.writer.upgrade()) {
                    let _ = writer.try_send(reply);
                }
            }
        }
    }

    fn answer(&self, response: &ResponseIn<'_>) {
        let outcome = match response.outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(match serde_json::from_str::<RpcError>(error.get()) {
                Ok(error) => Error::Rpc(error),
                Err(_) => Error::Protocol {
                    peer: self.peer.clone(),
                    fault: "its error object is not one".to_owned(),
                },
            }),
        };
        let id = response
            .id
            .as_ref()
            .and_then(|id| id.as_json().parse().ok());
        let expected = id.is_some_and(|id| self.pending.answer(id, outcome));
        if !expected {
            tracing::debug!(peer = %self.peer, "an answer that nobody waits for");
        }
    }

    fn note(&self, notification: &Notification<'_>) {
        if notification.method == "notifications/progress"
            && let Some((id, report)) = incoming::progress(notification.params)
            && self.pending.report(id, report)
        {
            return;
        }
        self.inbox.notification(notification);
    }
}

/// Passes the child's log on to ours.
pub(super) async fn log(peer: Arc<str>, stderr: impl AsyncRead + Unpin) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(Line::Whole | Line::Part) = lines::next(&mut stderr, &mut line, MAX_LOG_LINE).await
    {
        // Escaped: the line may hold what a terminal obeys.
        tracing::info!(target: "mcp_client::stderr", peer = %peer, line = ?String::from_utf8_lossy(&line));
    }
}
