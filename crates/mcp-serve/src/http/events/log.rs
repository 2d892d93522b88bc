//! The log of one event stream, and its reader on one connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, Interval};

use super::super::stream_slots::Revocation;
use super::stream::{ServerMessage, write_event};
use crate::key::handle;

/// Events that are kept of one stream; the oldest are removed.
const MAX_KEPT_EVENTS: usize = 256;
/// Bytes that are kept of one stream; the last event is kept whatever its size.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// Milliseconds after which a disconnected client reconnects.
const RETRY_INTERVAL_MS: u32 = 500;

/// The events of one stream, numbered from zero.
pub(super) struct EventLog {
    id: String,
    /// True if the client expects to be disconnected.
    polls: bool,
    state: Mutex<LogState>,
    /// True while there is a reader.
    is_read: watch::Sender<bool>,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<Bytes>,
    /// The bytes of the events.
    bytes: usize,
    /// The number of the first event that is kept.
    first: u64,
    /// True if no event follows.
    is_over: bool,
    /// The number of the latest reader. Earlier readers stop.
    reader: u64,
    /// True if the latest reader is to be disconnected once it has all events.
    is_disconnecting: bool,
    /// True once a reader has the last event.
    is_delivered: bool,
    waker: Option<Waker>,
}

impl EventLog {
    /// Creates an empty log with an id that cannot be guessed, and that names this process and the request. `None`
    /// if there is no randomness.
    pub(super) fn new(polls: bool, request: Option<&str>) -> Option<Self> {
        let handle = handle()?;
        let id = match request {
            Some(request) => format!("{handle:032x}.{request}"),
            None => format!("{handle:032x}"),
        };
        let log = Self {
            id,
            polls,
            state: Mutex::default(),
            is_read: watch::Sender::new(true),
        };
        if polls {
            // An event without data gives the client an id to resume from.
            log.push(|event| {
                event.extend_from_slice(format!("retry: {RETRY_INTERVAL_MS}\ndata:\n\n").as_bytes())
            });
        }
        Some(log)
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Appends a message of the call.
    pub(super) fn append(&self, message: ServerMessage) {
        match message {
            ServerMessage::Message(message) => self.append_line(message.as_bytes()),
            ServerMessage::Disconnect if self.polls => {
                let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        state.is_over = true;
        state.wake();
    }

    /// Completes once there was no reader for `timeout`.
    pub(super) async fn abandoned(&self, timeout: Duration) {
        let mut is_read = self.is_read.subscribe();
        // Always `Ok`: `self` owns the sender.
        while is_read.wait_for(|is_read| !is_read).await.is_ok() {
            let back = is_read.wait_for(|is_read| *is_read);
            if tokio::time::timeout(timeout, back).await.is_err() {
                return;
            }
        }
    }

    /// Returns true once a reader has the last event. The client may not have received it.
    pub(super) fn is_delivered(&self) -> bool {
        self.state.lock().is_delivered
    }

    /// The bytes of the events that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        let number = state.end();
        let mut event = format!("id: {}-{number}\n", self.id).into_bytes();
        write(&mut event);
        state.bytes += event.len();
        state.events.push_back(event.into());
        while state.events.len() > MAX_KEPT_EVENTS
            || state.bytes > MAX_KEPT_BYTES && state.events.len() > 1
        {
            let removed = state.events.pop_front();
            state.bytes -= removed.map_or(0, |event| event.len());
            state.first += 1;
        }
        state.wake();
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

/// The reader of a log on one connection.
pub(in crate::http) struct Replay {
    log: Arc<EventLog>,
    number: u64,
    /// The number of the first event that it has not read.
    next: u64,
    keep_alive: Interval,
    revocation: Revocation,
    is_revoked: bool,
}

impl Replay {
    /// Reads from the event `next` on. The previous reader stops.
    pub(super) fn new(log: &Arc<EventLog>, next: u64, keep_alive: Duration) -> Self {
        let mut state = log.state.lock();
        state.reader += 1;
        state.is_disconnecting &= state.reader == 1;
        state.wake();
        log.is_read.send_replace(true);
        Self {
            log: Arc::clone(log),
            number: state.reader,
            next,
            keep_alive: tokio::time::interval_at(Instant::now() + keep_alive, keep_alive),
            revocation: Revocation::new(None),
            is_revoked: false,
        }
    }

    /// Ends the stream when the token of its client is removed.
    pub(in crate::http) fn until(mut self, revocation: Revocation) -> Self {
        self.revocation = revocation;
        self
    }
}

impl Stream for Replay {
    type Item = Bytes;

    /// The next chunk of the body: all available events.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.is_revoked |= self.revocation.poll(cx);
        let log = Arc::clone(&self.log);
        let mut state = log.state.lock();
        if self.is_revoked || state.reader != self.number {
            return Poll::Ready(None);
        }
        let seen = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let mut unread = state.events.iter().skip(seen);
        if let Some(first) = unread.next() {
            let mut piece = first.to_vec();
            unread.for_each(|event| piece.extend_from_slice(event));
            self.next = state.end();
            state.is_delivered |= state.is_over;
            return Poll::Ready(Some(piece.into()));
        }
        if state.is_over || state.is_disconnecting {
            state.is_delivered |= state.is_over;
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
        let mut state = self.log.state.lock();
        state.is_delivered |= state.is_over && self.next >= state.end();
        if state.reader == self.number {
            self.log.is_read.send_replace(false);
        }
    }
}
