//! Server-sent events: what a call sends before its answer (specification, "Streamable HTTP"), and streams that
//! survive their connection (2025-11-25, "Resumability and Redelivery").
//!
//! A stream in a session is kept until its client has all of it. A client that lost the connection, or
//! was disconnected because the call takes long, reconnects with the id of its last event and gets the
//! events after it.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use mcp_core::server::{FrameReply, Peer};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::key::handle;

/// Notifications queued for a client that does not read; more are dropped.
const MAX_QUEUED_MESSAGES: usize = 64;

/// A part of what a call sends.
pub(super) enum Output {
    /// A message to the client, of one line.
    Message(String),
    /// The connection is not needed for a while.
    Disconnect,
    /// The reply to the frame, after which nothing follows.
    Reply(FrameReply),
}

impl Output {
    /// Returns the line to write, if there is one. A stream that cannot be resumed stays connected.
    fn into_line(self) -> Option<Vec<u8>> {
        match self {
            Self::Message(message) => Some(message.into_bytes()),
            Self::Reply(reply) => reply.into_line(),
            Self::Disconnect => None,
        }
    }
}

/// Sends messages to the client while its request is being answered.
#[derive(Clone)]
pub(super) struct MessageSender(mpsc::Sender<Output>);

impl MessageSender {
    pub(super) fn new() -> (Self, mpsc::Receiver<Output>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_MESSAGES);
        (Self(sender), receiver)
    }

    /// Sends an answer: waits while the queue is full.
    pub(super) async fn send(&self, line: Vec<u8>) {
        if let Ok(line) = String::from_utf8(line) {
            // Fails once the stream has ended.
            let _ = self.0.send(Output::Message(line)).await;
        }
    }
}

impl Peer for MessageSender {
    fn notify(&self, message: String) {
        let _ = self.0.try_send(Output::Message(message));
    }

    fn disconnect(&self) {
        let _ = self.0.try_send(Output::Disconnect);
    }
}

/// A request that is being answered.
///
/// A client that disconnects cancels its request in the modern era only. In each era the call then runs
/// without a reader, to its end or until it has cleaned up.
pub(super) struct InFlightCall {
    /// `None` once it was answered.
    call: Option<Pin<Box<dyn Future<Output = FrameReply> + Send>>>,
    messages: mpsc::Receiver<Output>,
    /// Its answer, while messages that were queued together with it go out.
    answer: Option<FrameReply>,
    client_gone: Option<Arc<CancellationToken>>,
}

impl InFlightCall {
    /// Sends `messages` before its answer. `client_gone`, if any, is cancelled when the client disconnects.
    pub(super) fn new(
        call: impl Future<Output = FrameReply> + Send + 'static,
        messages: Option<mpsc::Receiver<Output>>,
        client_gone: Option<Arc<CancellationToken>>,
    ) -> Self {
        Self {
            call: Some(Box::pin(call)),
            messages: messages.unwrap_or_else(|| mpsc::channel(1).1),
            answer: None,
            client_gone,
        }
    }

    /// Notifies the call that its client has disconnected.
    fn client_gone(&self) {
        if let Some(client_gone) = &self.client_gone {
            client_gone.cancel();
        }
    }

    /// Returns what the call sends next; `None` after its answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Output> {
        if self.answer.is_none() {
            let call = self.call.as_mut()?;
            tokio::select! {
                biased;
                Some(message) = self.messages.recv() => return Some(message),
                answer = call => self.answer = Some(answer),
            }
            self.call = None;
        }
        while let Ok(message) = self.messages.try_recv() {
            if let Output::Message(_) = message {
                return Some(message);
            }
        }
        self.answer.take().map(Output::Reply)
    }

    pub(super) async fn answer(mut self) -> FrameReply {
        loop {
            match self.next().await {
                Some(Output::Reply(answer)) => return answer,
                Some(_) => {}
                None => return FrameReply::nothing(),
            }
        }
    }

    /// The events of a stream that cannot be resumed: `first`, and what follows.
    pub(super) fn into_events(
        self,
        first: Option<Output>,
    ) -> impl Stream<Item = Bytes> + Send + 'static {
        let rest = stream::unfold(self, |mut call| async move {
            let output = call.next().await?;
            Some((output, call))
        });
        let lines = stream::iter(first).chain(rest);
        lines.filter_map(|output| ready(output.into_line().map(|line| event(&line).into())))
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else {
            return;
        };
        self.client_gone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(call);
        }
    }
}

/// Adds a comment to a stream of events in each interval without one.
pub(super) fn kept_alive(
    events: impl Stream<Item = Bytes> + Send + 'static,
    interval: Duration,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let ticks = tokio::time::interval_at(Instant::now() + interval, interval);
    stream::unfold((events.boxed(), ticks), |(mut events, mut ticks)| async {
        let event = tokio::select! {
            biased;
            event = events.next() => event?,
            _ = ticks.tick() => Bytes::from_static(b":\n\n"),
        };
        Some((event, (events, ticks)))
    })
}

/// One event. The message is one line: its line breaks were replaced by spaces.
fn event(message: &[u8]) -> Vec<u8> {
    [b"event: message\ndata: ", message, b"\n\n"].concat()
}

/// Events that are kept of one stream; the oldest are removed.
const MAX_KEPT_EVENTS: usize = 256;
/// Bytes that are kept of one stream; the last event is kept whatever its size.
const MAX_LOG_BYTES: usize = 1 << 20;
/// Milliseconds after which a disconnected client reconnects.
const RETRY_INTERVAL_MS: u32 = 500;

/// The events of one stream, numbered from zero.
struct StreamLog {
    id: String,
    /// True if the client expects to be disconnected.
    polls: bool,
    state: watch::Sender<LogState>,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first event that is kept.
    first: u64,
    /// True if no event follows.
    is_over: bool,
    /// The number of the latest reader. Earlier readers stop.
    reader: u64,
    /// True while there is that reader.
    is_read: bool,
    /// True if the latest reader is to be disconnected once it has all events.
    is_disconnecting: bool,
    /// True once a reader has the last event. The client may not have received it.
    is_delivered: bool,
}

impl LogState {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

impl StreamLog {
    /// Creates an empty log with an id that cannot be guessed, and that names this process and the request. `None`
    /// if there is no randomness.
    fn new(polls: bool, request: Option<&str>) -> Option<Self> {
        let handle = handle()?;
        let id = match request {
            Some(request) => format!("{handle:032x}.{request}"),
            None => format!("{handle:032x}"),
        };
        let state = watch::Sender::default();
        let log = Self { id, polls, state };
        if polls {
            // An event without data gives the client an id to resume from.
            log.push(format!("retry: {RETRY_INTERVAL_MS}\ndata:\n\n").as_bytes());
        }
        Some(log)
    }

    /// Appends a part of what the call sends.
    fn append(&self, output: Output) {
        match output {
            Output::Disconnect if self.polls => {
                self.state
                    .send_modify(|state| state.is_disconnecting = true);
            }
            output => {
                if let Some(line) = output.into_line() {
                    self.push(&event(&line));
                }
            }
        }
    }

    /// Closes the log: no event follows.
    fn end(&self) {
        self.state.send_modify(|state| state.is_over = true);
    }

    /// Completes once there was no reader for `timeout`.
    async fn abandoned(&self, timeout: Duration) {
        let mut state = self.state.subscribe();
        // Always `Ok`: `self` owns the sender.
        while state.wait_for(|state| !state.is_read).await.is_ok() {
            let back = state.wait_for(|state| state.is_read);
            if tokio::time::timeout(timeout, back).await.is_err() {
                return;
            }
        }
    }

    fn push(&self, content: &[u8]) {
        self.state.send_modify(|state| {
            let mut event = format!("id: {}-{}\n", self.id, state.end()).into_bytes();
            event.extend_from_slice(content);
            state.bytes += event.len();
            state.events.push_back(event.into());
            while state.events.len() > MAX_KEPT_EVENTS
                || state.bytes > MAX_LOG_BYTES && state.events.len() > 1
            {
                let removed = state.events.pop_front();
                state.bytes -= removed.map_or(0, |event| event.len());
                state.first += 1;
            }
        });
    }

    /// Reads from the event `next` on. The previous reader stops.
    fn read(self: &Arc<Self>, next: u64) -> Replay {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.reader += 1;
            state.is_disconnecting &= state.reader == 1;
            state.is_read = true;
            number = state.reader;
        });
        let reader = LogReader {
            log: Arc::clone(self),
            state: self.state.subscribe(),
            number,
            next,
        };
        let chunks = stream::unfold(reader, |mut reader| async move {
            let chunk = reader.chunk().await?;
            Some((chunk, reader))
        });
        chunks.boxed()
    }
}

/// The events of a log on one connection, in chunks of all that are there.
pub(super) type Replay = BoxStream<'static, Bytes>;

/// The reader of a log on one connection.
struct LogReader {
    log: Arc<StreamLog>,
    state: watch::Receiver<LogState>,
    number: u64,
    /// The number of the first event that it has not read.
    next: u64,
}

impl LogReader {
    /// Waits for further events; `None` at the end of the connection.
    async fn chunk(&mut self) -> Option<Bytes> {
        let (number, next) = (self.number, self.next);
        let is_ready = |state: &LogState| {
            let is_last = state.is_over || state.is_disconnecting;
            state.reader != number || next < state.end() || is_last
        };
        // Always `Ok`: the log owns the sender.
        let state = self.state.wait_for(is_ready).await.ok()?;
        if state.reader != number {
            return None;
        }
        let seen = usize::try_from(next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let unread: Vec<Bytes> = state.events.iter().skip(seen).cloned().collect();
        self.next = next.max(state.end());
        (!unread.is_empty()).then(|| unread.concat().into())
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.state.send_modify(|state| {
            state.is_delivered |= state.is_over && self.next >= state.end();
            state.is_read &= state.reader != self.number;
        });
    }
}

/// Timeout for a client to reconnect.
const RESUME_TIMEOUT: Duration = Duration::from_secs(60);
/// Streams that are kept at the same time; further ones are streamed, but cannot be resumed.
const MAX_KEPT_STREAMS: usize = 512;
/// Bytes of all kept streams from which on no other is kept.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The streams that can be resumed.
#[derive(Default)]
pub(super) struct ResumableStreams {
    kept: Mutex<HashMap<String, KeptStream>>,
}

struct KeptStream {
    /// The session that the stream belongs to.
    session: Arc<str>,
    log: Arc<StreamLog>,
    /// Ends the task that would remove it later.
    _removed: DropGuard,
}

impl KeptStream {
    /// The bytes of the events that are kept.
    fn bytes(&self) -> usize {
        self.log.state.borrow().bytes
    }
}

/// The session of a stream, and how its events are sent.
pub(super) struct ReplayPolicy {
    pub(super) session: Arc<str>,
    /// True if the client expects to be disconnected (2025-11-25 and later).
    pub(super) polls: bool,
    /// The id of the request, for the ids of its events; see [`lost_request`].
    pub(super) request: Option<String>,
}

/// Largest id of a request, as JSON, that the ids of its events have in them.
const MAX_REQUEST_BYTES: usize = 40;

/// Returns the id of a request in hexadecimal digits, for the ids of its events; `None` if it is too long.
pub(super) fn request_digits(request: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let envelope: Envelope<'_> = serde_json::from_slice(request).ok()?;
    let id = envelope.id.get();
    let digits = |id: &str| id.bytes().map(|byte| format!("{byte:02x}")).collect();
    (id.len() <= MAX_REQUEST_BYTES).then(|| digits(id))
}

/// Returns the id of the request, as JSON, to which the stream with the event `last` belongs.
pub(super) fn lost_request(last: &str) -> Option<String> {
    let (stream, _) = last.split_once('-')?;
    let (_, digits) = stream.split_once('.')?;
    let pairs = digits.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    String::from_utf8(bytes).ok()
}

impl ResumableStreams {
    /// Makes room for another stream: if necessary, removes some that were sent completely. Returns false if
    /// there is no room.
    pub(super) fn make_room(&self) -> bool {
        let mut kept = self.kept.lock();
        let mut bytes: usize = kept.values().map(KeptStream::bytes).sum();
        while kept.len() >= MAX_KEPT_STREAMS || bytes >= MAX_KEPT_BYTES {
            let sent = kept
                .iter()
                .find(|(_, kept)| kept.log.state.borrow().is_delivered);
            let Some((id, size)) = sent.map(|(id, kept)| (id.clone(), kept.bytes())) else {
                return false;
            };
            kept.remove(&id);
            bytes -= size.min(bytes);
        }
        true
    }

    /// Runs `call` to its end, with or without a reader. `None` if there is no randomness for an id.
    pub(super) fn start(
        self: &Arc<Self>,
        policy: ReplayPolicy,
        first: Option<Output>,
        call: InFlightCall,
    ) -> Option<Replay> {
        let log = Arc::new(StreamLog::new(policy.polls, policy.request.as_deref())?);
        if let Some(first) = first {
            log.append(first);
        }
        let removed = CancellationToken::new();
        let kept = KeptStream {
            session: policy.session,
            log: Arc::clone(&log),
            _removed: removed.clone().drop_guard(),
        };
        self.kept.lock().insert(log.id.clone(), kept);
        let replay = log.read(0);
        let streams = Arc::clone(self);
        tokio::spawn(async move {
            record(&log, call).await;
            // Even after the last event was written: the connection may have broken before it arrived.
            // The log itself is kept by the table alone, so that a stream that made room is freed at once.
            let id = log.id.clone();
            drop(log);
            tokio::select! {
                () = removed.cancelled() => {}
                () = tokio::time::sleep(RESUME_TIMEOUT) => {
                    streams.kept.lock().remove(&id);
                }
            }
        });
        Some(replay)
    }

    /// Returns the rest of a stream of `session` after the event `last`; `None` if the stream is not kept.
    /// The previous reader stops.
    pub(super) fn resume(&self, session: &str, last: &str) -> Option<Replay> {
        let (id, number) = last.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let kept = self.kept.lock();
        let kept = kept.get(id).filter(|kept| *kept.session == *session)?;
        let next = number.checked_add(1)?;
        Some(kept.log.read(next))
    }

    /// Removes the streams of an ended session.
    pub(super) fn forget(&self, session: &str) {
        let mut kept = self.kept.lock();
        for (_, ended) in kept.extract_if(|_, kept| *kept.session == *session) {
            ended.log.end();
        }
    }
}

/// Logs the messages of the call, then its answer.
async fn record(log: &StreamLog, mut call: InFlightCall) {
    let mut abandoned = pin!(log.abandoned(RESUME_TIMEOUT));
    let mut is_abandoned = false;
    loop {
        tokio::select! {
            biased;
            output = call.next() => match output {
                Some(output) => log.append(output),
                None => break,
            },
            () = &mut abandoned, if !is_abandoned => {
                call.client_gone();
                is_abandoned = true;
            }
        }
    }
    log.end();
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn policy(polls: bool) -> ReplayPolicy {
        ReplayPolicy {
            session: "s".into(),
            polls,
            request: None,
        }
    }

    #[test]
    fn event_id_names_its_process_and_its_request() {
        let frame = |id: &str| format!(r#"{{"id":{id},"method":"ping"}}"#).into_bytes();
        for request in ["1", "\"a-b.c\"", "\"\u{e4}\""] {
            let digits = request_digits(&frame(request));
            let log = StreamLog::new(true, digits.as_deref()).unwrap();
            let event = format!("{}-0", log.id);
            assert!(event.starts_with(&format!("{:08x}", crate::process_id())));
            assert_eq!(lost_request(&event).as_deref(), Some(request));
        }
        assert!(request_digits(&frame(&"1".repeat(MAX_REQUEST_BYTES + 1))).is_none());
        let log = StreamLog::new(true, None).unwrap();
        assert!(lost_request(&format!("{}-0", log.id)).is_none());
    }

    fn answer() -> FrameReply {
        repeated("{\"result\":1}", 1)
    }

    fn text(chunk: Bytes) -> String {
        String::from_utf8(chunk.to_vec()).unwrap()
    }

    /// Reads until the end of the connection.
    async fn rest(replay: Replay) -> String {
        replay.map(text).collect().await
    }

    /// A call that is answered at once.
    fn answered(answer: FrameReply) -> InFlightCall {
        InFlightCall::new(ready(answer), None, None)
    }

    /// An answer that is this text so many times.
    fn repeated(text: &str, times: usize) -> FrameReply {
        FrameReply {
            body: Some(text.repeat(times).into_bytes()),
            ..FrameReply::nothing()
        }
    }

    /// The id in the last event of `chunk`.
    fn last_id(chunk: &str) -> String {
        let (_, id) = chunk.rsplit_once("id: ").unwrap();
        id.lines().next().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn disconnected_client_resumes_and_gets_the_answer() {
        let streams = Arc::new(ResumableStreams::default());
        let (sender, messages) = MessageSender::new();
        let (finish, wait) = oneshot::channel::<()>();
        sender.notify("{\"n\":1}".into());
        sender.disconnect();
        let call = async move {
            wait.await.unwrap();
            sender.notify("{\"n\":2}".into());
            answer()
        };
        let call = InFlightCall::new(call, Some(messages), Some(Arc::default()));
        let chunks = rest(streams.start(policy(true), None, call).unwrap()).await;
        assert!(
            chunks.starts_with("id: ")
                && chunks.contains("retry: ")
                && chunks.contains("{\"n\":1}"),
            "{chunks}"
        );

        finish.send(()).unwrap();
        let last = last_id(&chunks);
        assert!(streams.resume("other", &last).is_none());
        let resumed = rest(streams.resume("s", &last).unwrap()).await;
        assert!(
            resumed.contains("{\"n\":2}")
                && resumed.contains("{\"result\":1}")
                && !resumed.contains("{\"n\":1}"),
            "{resumed}"
        );
        // The connection may have broken before the answer arrived: it is sent again.
        let again = rest(streams.resume("s", &last).unwrap()).await;
        assert_eq!(again, resumed);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(streams.resume("s", &last).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn completely_sent_streams_are_removed_for_others() {
        let streams = Arc::new(ResumableStreams::default());
        let mut open = Vec::new();
        for _ in 0..MAX_KEPT_STREAMS {
            assert!(streams.make_room());
            let started = streams.start(policy(false), None, answered(answer()));
            open.push(started.unwrap());
        }
        assert!(!streams.make_room());
        rest(open.remove(0)).await;
        let log = {
            let kept = streams.kept.lock();
            let sent = kept
                .values()
                .find(|kept| kept.log.state.borrow().is_delivered);
            Arc::downgrade(&sent.unwrap().log)
        };
        assert!(streams.make_room());
        // Its memory is free at once, not when it would have expired.
        assert!(log.upgrade().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn kept_bytes_are_limited() {
        let streams = Arc::new(ResumableStreams::default());
        let (sender, messages) = MessageSender::new();
        let call = async move {
            for _ in 0..60 {
                sender.notify("y".repeat(100_000));
            }
            repeated("x", MAX_KEPT_BYTES / 2)
        };
        let call = InFlightCall::new(call, Some(messages), None);
        let first = streams.start(policy(true), None, call).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kept = streams
            .kept
            .lock()
            .values()
            .map(KeptStream::bytes)
            .sum::<usize>();
        assert!(kept < MAX_KEPT_BYTES / 2 + 1000, "{kept}");
        let call = answered(repeated("z", MAX_KEPT_BYTES / 2));
        let second = streams.start(policy(true), None, call).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!streams.make_room());
        // One that was sent completely makes room.
        rest(first).await;
        assert!(streams.make_room());
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_expire_and_older_clients_are_not_disconnected() {
        let streams = Arc::new(ResumableStreams::default());
        let (sender, messages) = MessageSender::new();
        sender.disconnect();
        sender.notify("{\"n\":1}".into());
        let call = InFlightCall::new(async { answer() }, Some(messages), Some(Arc::default()));
        let mut replay = streams.start(policy(false), None, call).unwrap();
        let first = text(replay.next().await.unwrap());
        assert!(
            !first.contains("retry") && first.contains("{\"n\":1}"),
            "{first}"
        );
        drop(replay);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(streams.kept.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn call_of_a_client_that_stays_away_is_cancelled() {
        let streams = Arc::new(ResumableStreams::default());
        let (sender, messages) = MessageSender::new();
        let gone = CancellationToken::new();
        let waiting = gone.clone();
        let call = async move {
            let _sender = sender;
            waiting.cancelled().await;
            answer()
        };
        let call = InFlightCall::new(call, Some(messages), Some(Arc::new(gone.clone())));
        let mut replay = streams.start(policy(true), None, call).unwrap();
        let last = last_id(&text(replay.next().await.unwrap()));
        drop(replay);
        tokio::time::sleep(RESUME_TIMEOUT / 2).await;
        let replay = streams.resume("s", &last).unwrap();
        tokio::time::sleep(RESUME_TIMEOUT * 2).await;
        assert!(!gone.is_cancelled());
        drop(replay);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(gone.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn messages_precede_the_answer_and_keep_alive_comments_are_sent() {
        let (sender, messages) = MessageSender::new();
        let call = async move {
            sender.notify("{\"n\":1}".into());
            tokio::time::sleep(Duration::from_secs(20)).await;
            sender.notify("{\"n\":2}".into());
            repeated("{\"result\":\n1}", 1)
        };
        let call = InFlightCall::new(call, Some(messages), None);
        let events = kept_alive(call.into_events(None), Duration::from_secs(15));
        let events: Vec<Bytes> = events.collect().await;
        let expected = [
            "event: message\ndata: {\"n\":1}\n\n",
            ":\n\n",
            "event: message\ndata: {\"n\":2}\n\n",
            "event: message\ndata: {\"result\": 1}\n\n",
        ];
        assert_eq!(events, expected);
    }
}
