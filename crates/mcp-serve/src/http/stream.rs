//! A reply as a stream of server-sent events: for requests whose call has something to say before
//! its result (specification, "Streamable HTTP").

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use mcp_core::server::Answer;
use mcp_core::tool::Peer;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

/// Notifications that wait for a client that does not read; more are dropped.
const QUEUE: usize = 64;

/// A request that is being answered.
///
/// A client that goes away cancels its request in the modern era, and does not before it. Either
/// way the work goes on without a reader, to its end or until it has cleaned up.
pub(super) struct Work {
    work: Option<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    left: CancellationToken,
}

impl Work {
    /// `left` is cancelled when the client goes away.
    pub(super) fn new(
        work: impl Future<Output = Answer> + Send + 'static,
        left: CancellationToken,
    ) -> Self {
        Self {
            work: Some(Box::pin(work)),
            left,
        }
    }

    /// Tells the work that nobody waits for it any more.
    pub(super) fn leave(&self) {
        self.left.cancel();
    }

    fn is_done(&self) -> bool {
        self.work.is_none()
    }
}

impl Future for Work {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let answer = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(answer)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.left.cancel();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

/// What a call says before its answer.
pub(super) enum Said {
    /// A message to the client, of one line.
    Message(String),
    /// That the connection is not needed for a while.
    Disconnect,
}

/// The way back to the client while its request is being answered.
pub(super) struct Outbox(mpsc::Sender<Said>);

impl Outbox {
    pub(super) fn new() -> (Self, mpsc::Receiver<Said>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }
}

impl Peer for Outbox {
    fn notify(&self, message: String) {
        let _ = self.0.try_send(Said::Message(message));
    }

    fn disconnect(&self) {
        let _ = self.0.try_send(Said::Disconnect);
    }
}

/// What comes first of a request that is being answered.
pub(super) enum First {
    Answer(Answer),
    Said(Said),
    /// Neither came at once.
    Nothing,
}

impl First {
    /// Waits for it only if `may_wait`: a client that reads nothing but events is shown soon that
    /// there will be some.
    pub(super) async fn of(
        work: &mut Work,
        messages: &mut mpsc::Receiver<Said>,
        may_wait: bool,
    ) -> Self {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(answer) = Pin::new(&mut *work).poll(cx) {
                // What was said in the same breath as the answer comes before it.
                let Ok(said @ Said::Message(_)) = messages.try_recv() else {
                    return Poll::Ready(Self::Answer(answer));
                };
                work.work = Some(Box::pin(std::future::ready(answer)));
                return Poll::Ready(Self::Said(said));
            }
            match messages.poll_recv(cx) {
                Poll::Ready(Some(said)) => Poll::Ready(Self::Said(said)),
                _ if may_wait => Poll::Pending,
                _ => Poll::Ready(Self::Nothing),
            }
        })
        .await
    }
}

/// The events of one reply: what the call says, then its answer.
pub(super) struct EventStream {
    work: Work,
    messages: mpsc::Receiver<Said>,
    keep_alive: Interval,
    first: Option<Bytes>,
}

impl EventStream {
    /// Starts with `first`, goes on with `messages` and ends with the answer of `work`.
    pub(super) fn new(
        first: Option<Vec<u8>>,
        messages: mpsc::Receiver<Said>,
        work: Work,
        keep_alive: Duration,
    ) -> Self {
        let keep_alive = tokio::time::interval_at(Instant::now() + keep_alive, keep_alive);
        let first = first.map(|message| {
            let mut event = Vec::new();
            write(&mut event, &message);
            event.into()
        });
        Self {
            work,
            messages,
            keep_alive,
            first,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.work.is_done() && self.first.is_none()
    }

    /// The next piece: everything that is ready, in one.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.work.is_done() {
            return Poll::Ready(None);
        }
        let mut piece = Vec::new();
        let answer = Pin::new(&mut self.work).poll(cx);
        // After the work was polled: what it said just now goes out before its answer.
        while let Poll::Ready(Some(said)) = self.messages.poll_recv(cx) {
            // This stream cannot be resumed: the connection stays.
            if let Said::Message(message) = said {
                write(&mut piece, message.as_bytes());
            }
        }
        if let Poll::Ready(answer) = answer {
            if let Some(line) = answer.into_line() {
                write(&mut piece, &line);
            }
        } else if piece.is_empty() && self.keep_alive.poll_tick(cx).is_ready() {
            piece.extend_from_slice(b":\n\n");
        }
        match (piece.is_empty(), self.work.is_done()) {
            (false, _) => Poll::Ready(Some(piece.into())),
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}

/// One event. The message is one line: its line breaks were white space.
pub(super) fn write(piece: &mut Vec<u8>, message: &[u8]) {
    piece.extend_from_slice(b"event: message\ndata: ");
    piece.extend_from_slice(message);
    piece.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use super::*;

    fn answer(body: &str) -> Answer {
        Answer {
            status: 200,
            body: Some(body.as_bytes().to_vec()),
            agreed: None,
        }
    }

    #[tokio::test]
    async fn what_is_said_without_waiting_is_not_lost() {
        let (outbox, mut messages) = Outbox::new();
        let mut work = Work::new(
            async move {
                outbox.notify("{}".into());
                answer("{}")
            },
            CancellationToken::new(),
        );
        let first = First::of(&mut work, &mut messages, true).await;
        assert!(matches!(first, First::Said(Said::Message(_))));
        assert_eq!(work.await.body.as_deref(), Some(&b"{}"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_come_before_the_answer_and_silence_is_filled() {
        let (outbox, messages) = Outbox::new();
        let work = Work::new(
            async move {
                let outbox: Arc<dyn Peer> = Arc::new(outbox);
                outbox.notify("{\"n\":1}".into());
                tokio::time::sleep(Duration::from_secs(20)).await;
                outbox.notify("{\"n\":2}".into());
                answer("{\"result\":\n1}")
            },
            CancellationToken::new(),
        );
        let mut stream = EventStream::new(None, messages, work, Duration::from_secs(15));
        let mut pieces = Vec::new();
        while let Some(piece) = poll_fn(|cx| stream.poll_event(cx)).await {
            pieces.push(String::from_utf8(piece.to_vec()).unwrap());
        }
        assert_eq!(
            pieces,
            [
                "event: message\ndata: {\"n\":1}\n\n",
                ":\n\n",
                "event: message\ndata: {\"n\":2}\n\nevent: message\ndata: {\"result\": 1}\n\n",
            ]
        );
        assert!(stream.is_over());
    }
}
