//! A reply as a stream of server-sent events, for calls that send messages before their result
//! (specification, "Streamable HTTP").

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use mcp_core::server::{FrameReply, Peer};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::super::stream_slots::{Revocation, StreamSlot};

/// Notifications queued for a client that does not read; more are dropped.
const MAX_QUEUED_MESSAGES: usize = 64;

/// A request that is being answered.
///
/// A client that disconnects cancels its request in the modern era only. In each era the call then runs
/// without a reader, to its end or until it has cleaned up.
pub(in crate::http) struct InFlightCall {
    /// `None` once it was answered.
    answer: Option<Pin<Box<dyn Future<Output = FrameReply> + Send>>>,
    client_gone: Option<Arc<CancellationToken>>,
}

impl InFlightCall {
    /// `client_gone`, if any, is cancelled when the client disconnects.
    pub(in crate::http) fn new(
        answer: impl Future<Output = FrameReply> + Send + 'static,
        client_gone: Option<Arc<CancellationToken>>,
    ) -> Self {
        Self {
            answer: Some(Box::pin(answer)),
            client_gone,
        }
    }

    /// Notifies the call that its client has disconnected.
    pub(in crate::http) fn client_gone(&self) {
        if let Some(client_gone) = &self.client_gone {
            client_gone.cancel();
        }
    }

    fn is_done(&self) -> bool {
        self.answer.is_none()
    }
}

impl Future for InFlightCall {
    type Output = FrameReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FrameReply> {
        let Some(answer) = &mut self.answer else {
            return Poll::Pending;
        };
        let answer = ready!(answer.as_mut().poll(cx));
        self.answer = None;
        Poll::Ready(answer)
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else {
            return;
        };
        self.client_gone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(answer);
        }
    }
}

/// A message of the server before its answer.
pub(in crate::http) enum ServerMessage {
    /// A message to the client, of one line.
    Message(String),
    /// The connection is not needed for a while.
    Disconnect,
}

impl ServerMessage {
    /// Returns the message to write on a stream that cannot be resumed, which stays connected.
    pub(in crate::http) fn into_event(self) -> Option<Vec<u8>> {
        match self {
            Self::Message(message) => Some(message.into_bytes()),
            Self::Disconnect => None,
        }
    }
}

/// Sends messages to the client while its request is being answered.
#[derive(Clone)]
pub(in crate::http) struct MessageSender(mpsc::Sender<ServerMessage>);

impl MessageSender {
    pub(in crate::http) fn new() -> (Self, mpsc::Receiver<ServerMessage>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_MESSAGES);
        (Self(sender), receiver)
    }

    /// Sends an answer: waits while the queue is full.
    pub(in crate::http) async fn send(&self, line: Vec<u8>) {
        if let Ok(line) = String::from_utf8(line) {
            // Fails once the stream has ended.
            let _ = self.0.send(ServerMessage::Message(line)).await;
        }
    }
}

impl Peer for MessageSender {
    fn notify(&self, message: String) {
        let _ = self.0.try_send(ServerMessage::Message(message));
    }

    fn disconnect(&self) {
        let _ = self.0.try_send(ServerMessage::Disconnect);
    }
}

/// The first output of a call.
pub(in crate::http) enum FirstEvent {
    Answer(FrameReply),
    Message(ServerMessage),
    /// No output was available at once.
    Nothing,
}

impl FirstEvent {
    /// Waits for the first output only if `may_wait`: a client that accepts only events gets its stream at
    /// once.
    pub(in crate::http) async fn next(
        call: &mut InFlightCall,
        messages: &mut mpsc::Receiver<ServerMessage>,
        may_wait: bool,
    ) -> Self {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(answer) = Pin::new(&mut *call).poll(cx) {
                // A message that was queued together with the answer goes out before it.
                let Ok(message @ ServerMessage::Message(_)) = messages.try_recv() else {
                    return Poll::Ready(Self::Answer(answer));
                };
                call.answer = Some(Box::pin(std::future::ready(answer)));
                return Poll::Ready(Self::Message(message));
            }
            match messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => Poll::Ready(Self::Message(message)),
                _ if may_wait => Poll::Pending,
                _ => Poll::Ready(Self::Nothing),
            }
        })
        .await
    }
}

/// The events of one reply: the messages of the call, then its answer.
pub(in crate::http) struct EventStream {
    call: InFlightCall,
    messages: mpsc::Receiver<ServerMessage>,
    keep_alive: Interval,
    first: Option<Bytes>,
    revocation: Revocation,
    is_revoked: bool,
    _slot: Option<StreamSlot>,
}

impl EventStream {
    /// Starts with `first`, continues with `messages` and ends with the answer of `call`.
    pub(in crate::http) fn new(
        first: Option<Vec<u8>>,
        messages: mpsc::Receiver<ServerMessage>,
        call: InFlightCall,
        keep_alive: Duration,
        revocation: Revocation,
    ) -> Self {
        let keep_alive = tokio::time::interval_at(Instant::now() + keep_alive, keep_alive);
        let first = first.map(|message| {
            let mut event = Vec::new();
            write_event(&mut event, &message);
            event.into()
        });
        Self {
            call,
            messages,
            keep_alive,
            first,
            revocation,
            is_revoked: false,
            _slot: None,
        }
    }

    /// Starts with this event.
    pub(in crate::http) fn starting_with(self, event: String) -> Self {
        Self {
            first: Some(event.into()),
            ..self
        }
    }

    /// Holds `slot` until the stream ends.
    pub(in crate::http) fn in_slot(self, slot: StreamSlot) -> Self {
        Self {
            _slot: Some(slot),
            ..self
        }
    }
}

impl Stream for EventStream {
    type Item = Bytes;

    /// The next chunk of the body: all available events.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.is_revoked |= self.revocation.poll(cx);
        if self.is_revoked {
            return Poll::Ready(None);
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.call.is_done() {
            return Poll::Ready(None);
        }
        let mut chunk = Vec::new();
        let answer = Pin::new(&mut self.call).poll(cx);
        // After polling the call: messages that it has just queued go out before its answer.
        while let Poll::Ready(Some(message)) = self.messages.poll_recv(cx) {
            if let Some(message) = message.into_event() {
                write_event(&mut chunk, &message);
            }
        }
        if let Poll::Ready(answer) = answer {
            if let Some(line) = answer.into_line() {
                write_event(&mut chunk, &line);
            }
        } else if chunk.is_empty() && self.keep_alive.poll_tick(cx).is_ready() {
            chunk.extend_from_slice(b":\n\n");
        }
        match (chunk.is_empty(), self.call.is_done()) {
            (false, _) => Poll::Ready(Some(chunk.into())),
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}

/// Writes one event. The message is one line: its line breaks were replaced by spaces.
pub(in crate::http) fn write_event(chunk: &mut Vec<u8>, message: &[u8]) {
    chunk.extend_from_slice(b"event: message\ndata: ");
    chunk.extend_from_slice(message);
    chunk.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    fn answer(body: &str) -> FrameReply {
        FrameReply {
            status: 200,
            body: Some(body.as_bytes().to_vec()),
            negotiated: None,
        }
    }

    #[tokio::test]
    async fn message_queued_together_with_the_answer_comes_first() {
        let (sender, mut messages) = MessageSender::new();
        let mut call = InFlightCall::new(
            async move {
                sender.notify("{}".into());
                answer("{}")
            },
            Some(Arc::default()),
        );
        let first = FirstEvent::next(&mut call, &mut messages, true).await;
        assert!(matches!(
            first,
            FirstEvent::Message(ServerMessage::Message(_))
        ));
        assert_eq!(call.await.body.as_deref(), Some(&b"{}"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_precede_the_answer_and_keep_alive_comments_are_sent() {
        let (sender, messages) = MessageSender::new();
        let call = InFlightCall::new(
            async move {
                let sender: Arc<dyn Peer> = Arc::new(sender);
                sender.notify("{\"n\":1}".into());
                tokio::time::sleep(Duration::from_secs(20)).await;
                sender.notify("{\"n\":2}".into());
                answer("{\"result\":\n1}")
            },
            Some(Arc::default()),
        );
        let keep_alive = Duration::from_secs(15);
        let mut stream = EventStream::new(None, messages, call, keep_alive, Revocation::new(None));
        let mut chunks = Vec::new();
        while let Some(chunk) = stream.next().await {
            chunks.push(String::from_utf8(chunk.to_vec()).unwrap());
        }
        assert_eq!(
            chunks,
            [
                "event: message\ndata: {\"n\":1}\n\n",
                ":\n\n",
                "event: message\ndata: {\"n\":2}\n\nevent: message\ndata: {\"result\": 1}\n\n",
            ]
        );
    }
}
