//! Reads a child's stdout and dispatches its messages.

use std::sync::Arc;

use mcp_core::jsonrpc::{Fault, Frame, Message, Notification, Request, ResponseIn};
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::mpsc;

use super::lines::{self, Line};
use super::pending::Pending;
use crate::inbound::{Inbound, outcome};
use crate::{Error, invalid_answer, response_routes};

/// Size of the read buffer, in bytes.
const READ_BUFFER: usize = 64 << 10;
/// Limit of the logged part of an invalid line, in bytes.
const MAX_LOGGED_BYTES: usize = 120;
/// Limit of logged invalid lines per child, so that a child cannot flood the log.
const MAX_WARNINGS: u64 = 20;

/// The reader of a child's stdout, or of lines that stand for it.
pub(crate) struct Reader {
    pub(super) peer: Arc<str>,
    pub(crate) pending: Arc<Pending>,
    pub(super) inbound: Arc<Inbound>,
    pub(super) writer: mpsc::WeakSender<String>,
    pub(super) max_message: usize,
}

impl Reader {
    /// Reads until the child closes its stdout. Returns the fault of the child, if that was the reason.
    pub(crate) async fn read(&self, stdout: impl AsyncRead + Unpin) -> Option<String> {
        let mut stdout = BufReader::with_capacity(READ_BUFFER, stdout);
        let mut line = Vec::new();
        loop {
            match lines::next(&mut stdout, &mut line, self.max_message).await {
                Ok(Line::Whole) => {
                    if let Err(fault) = self.take(line.trim_ascii())
                        && self.inbound.count(|all| &mut all.invalid_messages) <= MAX_WARNINGS
                    {
                        let shown =
                            String::from_utf8_lossy(&line[..line.len().min(MAX_LOGGED_BYTES)]);
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

    /// Handles a line. Many servers print a banner on stdout, so the caller skips invalid lines; the
    /// request that one of them answers has failed.
    fn take(&self, line: &[u8]) -> Result<(), Fault> {
        if line.is_empty() {
            return Ok(());
        }
        let frame = Frame::decode(line).map_err(|error| {
            if let Some((id, fault)) = invalid_answer::find(line, &error.fault) {
                let failed = Err(Error::invalid_answer(&self.peer, fault));
                self.inbound.calls.answered(id);
                self.pending.resolve(id, failed);
            }
            error.fault
        })?;
        match frame {
            Frame::Single(message) => self.dispatch(message),
            Frame::Batch(items) => items
                .into_iter()
                .flatten()
                .for_each(|item| self.dispatch(item)),
        }
        Ok(())
    }

    fn dispatch(&self, message: Message<'_>) {
        match message {
            Message::Response(response) => self.on_response(&response),
            Message::Notification(notification) => self.on_notification(&notification),
            Message::Request(request) => self.on_request(&request),
        }
    }

    fn on_request(&self, request: &Request<'_>) {
        let writer = self.writer.clone();
        let send = async move |reply| {
            // Dropped if the child does not read.
            if let Some(writer) = writer.upgrade() {
                let _ = writer.send_timeout(reply, super::BUSY_TIMEOUT).await;
            }
        };
        let recipient = self.inbound.calls.recipient();
        self.inbound.request(request, recipient, send);
    }

    fn on_response(&self, response: &ResponseIn<'_>) {
        let id = response.id.as_ref();
        let id: Option<u64> = id.and_then(|id| id.as_json().parse().ok());
        let outcome = outcome(response, &self.peer);
        // Before the caller wakes up: the next message may be for another one.
        if let Some(id) = id {
            self.inbound.calls.answered(id);
        }
        if !id.is_some_and(|id| self.pending.resolve(id, outcome)) {
            self.inbound.count(|all| &mut all.unmatched_responses);
            tracing::debug!(peer = %self.peer, "response without a request");
        }
    }

    fn on_notification(&self, notification: &Notification<'_>) {
        match &*notification.method {
            "notifications/subscriptions/acknowledged" => {
                let id = response_routes::subscription_id(notification.params);
                let routes = id.and_then(|id| self.pending.routes(id));
                self.inbound.notification(notification, routes.as_deref());
            }
            method => {
                if method == "notifications/cancelled" {
                    self.end_subscription(notification);
                }
                self.inbound.unrelated_notification(notification);
            }
        }
    }

    /// Ends a subscription. In the modern era servers may cancel those, and nothing else.
    fn end_subscription(&self, notification: &Notification<'_>) {
        let id = response_routes::cancelled_id(notification.params);
        let id = id.and_then(|id| id.parse().ok());
        if let Some(id) = id
            && let Some(routes) = self.pending.routes(id)
            && routes.is_subscription()
        {
            let ended = self.pending.closed("it ended the subscription");
            self.pending.resolve(id, Err(ended));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::calls_in_flight::Recipient;
    use crate::handler::DefaultHandler;
    use crate::response_routes::ResponseRoutes;
    use std::time::Duration;

    #[tokio::test]
    async fn any_answer_ends_a_call_that_was_left() {
        for (answer, ends) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, true),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#, true),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, false),
            ("a banner", false),
        ] {
            let inbound = Arc::new(Inbound::new(Arc::new(DefaultHandler), Duration::ZERO));
            let reader = Reader {
                peer: "p".into(),
                pending: Arc::new(Pending::new("p".into())),
                inbound: inbound.clone(),
                writer: mpsc::channel(1).0.downgrade(),
                max_message: 1_000,
            };
            let options = Options::default().handler(Arc::new(DefaultHandler));
            let routes = Arc::new(ResponseRoutes::new(&options, None));
            drop(inbound.calls.enter(7, &routes));
            reader.read(answer.as_bytes()).await;
            let is_over = matches!(inbound.calls.recipient(), Recipient::Client);
            assert_eq!(is_over, ends, "{answer}");
        }
    }
}
