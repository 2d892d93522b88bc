//! The log of one event stream, and its reader.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::stream::{ServerMessage, write_event};

/// Events that are kept of one stream; the oldest make room.
const MAX_KEPT_EVENTS: usize = 256;
/// Milliseconds after which a client that was disconnected comes back.
const RETRY_INTERVAL_MS: u32 = 500;

/// The events of one stream, numbered from zero.
pub(super) struct EventLog {
    id: String,
    /// The client knows that it may be disconnected.
    polls: bool,
    state: Mutex<LogState>,
    /// There is a reader.
    is_read: watch::Sender<bool>,
    /// The last event was handed to a reader.
    delivered: CancellationToken,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<Bytes>,
    /// The number of the first one that is kept.
    first: u64,
    /// No event follows.
    is_over: bool,
    /// The number of the latest reader: only that one reads on.
    reader: u64,
    /// The latest reader is to be disconnected once it has all events.
    is_disconnecting: bool,
    waker: Option<Waker>,
}

impl EventLog {
    /// An empty log with an id that cannot be guessed. `None` where there is no randomness.
    pub(super) fn new(polls: bool) -> Option<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let mut id = String::with_capacity(32);
        for byte in random {
            write!(id, "{byte:02x}").ok()?;
        }
        let log = Self {
            id,
            polls,
            state: Mutex::default(),
            is_read: watch::Sender::new(true),
            delivered: CancellationToken::new(),
        };
        if polls {
            // An event without data tells the client where to come back.
            log.push(|event| {
                event.extend_from_slice(format!("retry: {RETRY_INTERVAL_MS}\ndata:\n\n").as_bytes())
            });
        }
        Some(log)
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Takes in a message of the call.
    pub(super) fn append(&self, message: ServerMessage) {
        match message {
            ServerMessage::Message(message) => self.append_line(message.as_bytes()),
            ServerMessage::Disconnect if self.polls => {
                let mut state = self.state();
                state.is_disconnecting = true;
                state.wake();
            }
            ServerMessage::Disconnect => {}
        }
    }

    /// Appends a message of one line.
    pub(super) fn append_line(&self, message: &[u8]) {
        self.push(|event| write_event(event, message));
    }

    /// Closes the log: no event follows.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.wake();
    }

    /// Completes once there was no reader for `timeout`.
    pub(super) async fn abandoned(&self, timeout: Duration) {
        let mut is_read = self.is_read.subscribe();
        // The sender lives as long as we do, so there is always an answer.
        while is_read.wait_for(|is_read| !is_read).await.is_ok() {
            let back = is_read.wait_for(|is_read| *is_read);
            if tokio::time::timeout(timeout, back).await.is_err() {
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
        if state.events.len() > MAX_KEPT_EVENTS {
            state.events.pop_front();
            state.first += 1;
        }
        state.wake();
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
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

/// One connection that reads a log.
pub(in crate::http) struct Replay {
    log: Arc<EventLog>,
    number: u64,
    /// The number of the first event that it has not seen.
    next: u64,
    keep_alive: Interval,
}

impl Replay {
    /// Reads from the event `next` on, in place of the reader before.
    pub(super) fn new(log: &Arc<EventLog>, next: u64, keep_alive: Duration) -> Self {
        let mut state = log.state();
        state.reader += 1;
        state.is_disconnecting &= state.reader == 1;
        state.wake();
        log.is_read.send_replace(true);
        Self {
            log: Arc::clone(log),
            number: state.reader,
            next,
            keep_alive: tokio::time::interval_at(Instant::now() + keep_alive, keep_alive),
        }
    }

    pub(in crate::http) fn is_over(&self) -> bool {
        let state = self.log.state();
        state.reader != self.number || (state.is_over && self.next >= state.end())
    }

    /// The next piece of the body: all events that are there, in one.
    pub(in crate::http) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.log.state();
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
                self.log.delivered.cancel();
            }
            return Poll::Ready(Some(piece.into()));
        }
        if state.is_over || state.is_disconnecting {
            if state.is_over {
                self.log.delivered.cancel();
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

impl Drop for Replay {
    fn drop(&mut self) {
        let state = self.log.state();
        if state.reader == self.number {
            self.log.is_read.send_replace(false);
        }
    }
}
