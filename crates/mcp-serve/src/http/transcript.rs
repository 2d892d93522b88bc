//! What one stream has said so far, and its reader.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::stream::{Said, write};

/// Events that are kept of one stream; the oldest make room.
const KEPT: usize = 256;
/// Milliseconds after which a client that was let go comes back.
const RETRY: u32 = 500;

/// The events of one stream, numbered from zero.
pub(super) struct Transcript {
    id: String,
    /// The client knows that it may be let go.
    polls: bool,
    state: Mutex<State>,
    /// Somebody reads.
    is_read: watch::Sender<bool>,
    /// The last event was handed to a reader.
    delivered: CancellationToken,
}

#[derive(Default)]
struct State {
    events: VecDeque<Bytes>,
    /// The number of the first one that is kept.
    first: u64,
    /// Nothing comes any more.
    is_over: bool,
    /// Who reads: readers are numbered, and the latest one goes on.
    reader: u64,
    /// The latest reader is to go once it has what there is.
    is_let_go: bool,
    waker: Option<Waker>,
}

impl Transcript {
    /// An empty one. Its id is not to be guessed. `None` where there is no randomness.
    pub(super) fn new(polls: bool) -> Option<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let mut id = String::with_capacity(32);
        for byte in random {
            write!(id, "{byte:02x}").ok()?;
        }
        let transcript = Self {
            id,
            polls,
            state: Mutex::default(),
            is_read: watch::Sender::new(true),
            delivered: CancellationToken::new(),
        };
        if polls {
            // An event without data: all that the client learns is where to come back.
            transcript.push(|event| {
                event.extend_from_slice(format!("retry: {RETRY}\ndata:\n\n").as_bytes())
            });
        }
        Some(transcript)
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Takes in what the call says.
    pub(super) fn hear(&self, said: Said) {
        match said {
            Said::Message(message) => self.add(message.as_bytes()),
            Said::Disconnect if self.polls => {
                let mut state = self.state();
                state.is_let_go = true;
                state.wake();
            }
            Said::Disconnect => {}
        }
    }

    /// Adds a message of one line.
    pub(super) fn add(&self, message: &[u8]) {
        self.push(|event| write(event, message));
    }

    /// Nothing comes any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.wake();
    }

    /// Completes once nobody has read for `patience`.
    pub(super) async fn abandoned(&self, patience: Duration) {
        let mut is_read = self.is_read.subscribe();
        // The sender lives as long as we do, so there is always an answer.
        while is_read.wait_for(|is_read| !is_read).await.is_ok() {
            let back = is_read.wait_for(|is_read| *is_read);
            if tokio::time::timeout(patience, back).await.is_err() {
                return;
            }
        }
    }

    /// Completes when a reader was handed the last event.
    pub(super) async fn delivered(&self) {
        self.delivered.cancelled().await;
    }

    fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let number = state.end();
        let mut event = format!("id: {}-{number}\n", self.id).into_bytes();
        write(&mut event);
        state.events.push_back(event.into());
        if state.events.len() > KEPT {
            state.events.pop_front();
            state.first += 1;
        }
        state.wake();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One connection that reads a transcript.
pub(super) struct Reading {
    transcript: Arc<Transcript>,
    number: u64,
    /// The number of the event that it has not seen yet.
    next: u64,
    keep_alive: Interval,
}

impl Reading {
    /// Reads from the event `next` on, in place of whoever read before.
    pub(super) fn of(transcript: &Arc<Transcript>, next: u64, keep_alive: Duration) -> Self {
        let mut state = transcript.state();
        state.reader += 1;
        state.is_let_go &= state.reader == 1;
        state.wake();
        transcript.is_read.send_replace(true);
        Self {
            transcript: Arc::clone(transcript),
            number: state.reader,
            next,
            keep_alive: tokio::time::interval_at(Instant::now() + keep_alive, keep_alive),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let state = self.transcript.state();
        state.reader != self.number || (state.is_over && self.next >= state.end())
    }

    /// The next piece: everything that is there, in one.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.transcript.state();
        if state.reader != self.number {
            return Poll::Ready(None);
        }
        let seen = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let mut unseen = state.events.iter().skip(seen);
        if let Some(first) = unseen.next() {
            let mut piece = first.to_vec();
            unseen.for_each(|event| piece.extend_from_slice(event));
            self.next = state.end();
            if state.is_over {
                self.transcript.delivered.cancel();
            }
            return Poll::Ready(Some(piece.into()));
        }
        if state.is_over || state.is_let_go {
            if state.is_over {
                self.transcript.delivered.cancel();
            }
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        drop(state);
        self.keep_alive
            .poll_tick(cx)
            .map(|_| Some(Bytes::from_static(b":\n\n")))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let state = self.transcript.state();
        if state.reader == self.number {
            self.transcript.is_read.send_replace(false);
        }
    }
}
