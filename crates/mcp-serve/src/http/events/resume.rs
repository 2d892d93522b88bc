//! Streams that survive their connection (2025-11-25, "Resumability and Redelivery").
//!
//! A stream in a session is kept until its client has all of it. A client that lost the connection, or
//! was disconnected because the call takes long, reconnects with the id of its last event and gets the
//! events after it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::log::{EventLog, Replay};
use super::stream::{InFlightCall, ServerMessage};

/// Timeout for a client to reconnect.
const RESUME_TIMEOUT: Duration = Duration::from_secs(60);
/// Streams that are kept at the same time; further ones are streamed, but cannot be resumed.
const MAX_KEPT_STREAMS: usize = 512;
/// Bytes of all kept streams from which on no other is kept.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The streams that can be resumed.
#[derive(Default)]
pub(in crate::http) struct ResumableStreams {
    kept: Mutex<HashMap<String, KeptStream>>,
}

struct KeptStream {
    /// The session that the stream belongs to.
    session: Arc<str>,
    log: Arc<EventLog>,
    /// Ends the task that would remove it later.
    _removed: DropGuard,
}

/// The session of a stream, and how its events are sent.
pub(in crate::http) struct ReplayPolicy {
    pub(in crate::http) session: Arc<str>,
    /// True if the client expects to be disconnected (2025-11-25 and later).
    pub(in crate::http) polls: bool,
    pub(in crate::http) keep_alive: Duration,
    /// The id of the request, for the ids of its events; see [`lost_request`].
    pub(in crate::http) request: Option<String>,
}

/// Largest id of a request, as JSON, that the ids of its events have in them.
const MAX_REQUEST_BYTES: usize = 40;

/// Returns the id of a request in hexadecimal digits, for the ids of its events; `None` if it is too long.
pub(in crate::http) fn request_digits(request: &[u8]) -> Option<String> {
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
pub(in crate::http) fn lost_request(last: &str) -> Option<String> {
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
    pub(in crate::http) fn make_room(&self) -> bool {
        let mut kept = self.kept.lock();
        let mut bytes: usize = kept.values().map(|kept| kept.log.bytes()).sum();
        while kept.len() >= MAX_KEPT_STREAMS || bytes >= MAX_KEPT_BYTES {
            let sent = kept.iter().find(|(_, kept)| kept.log.is_delivered());
            let Some((id, size)) = sent.map(|(id, kept)| (id.clone(), kept.log.bytes())) else {
                return false;
            };
            kept.remove(&id);
            bytes -= size.min(bytes);
        }
        true
    }

    /// Runs `call` to its end, with or without a reader. `None` if there is no randomness for an id.
    pub(in crate::http) fn start(
        self: &Arc<Self>,
        policy: ReplayPolicy,
        first: Option<ServerMessage>,
        messages: Receiver<ServerMessage>,
        call: InFlightCall,
    ) -> Option<Replay> {
        let log = Arc::new(EventLog::new(policy.polls, policy.request.as_deref())?);
        if let Some(first) = first {
            log.append(first);
        }
        let removed = CancellationToken::new();
        let kept = KeptStream {
            session: policy.session,
            log: Arc::clone(&log),
            _removed: removed.clone().drop_guard(),
        };
        self.kept.lock().insert(log.id().to_owned(), kept);
        let replay = Replay::new(&log, 0, policy.keep_alive);
        let streams = Arc::clone(self);
        tokio::spawn(async move {
            record(&log, messages, call).await;
            // Even after the last event was written: the connection may have broken before it arrived.
            // The log itself is kept by the table alone, so that a stream that made room is freed at once.
            let id = log.id().to_owned();
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
    pub(in crate::http) fn resume(
        &self,
        session: &str,
        last: &str,
        keep_alive: Duration,
    ) -> Option<Replay> {
        let (id, number) = last.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let kept = self.kept.lock();
        let kept = kept.get(id).filter(|kept| *kept.session == *session)?;
        let next = number.checked_add(1)?;
        Some(Replay::new(&kept.log, next, keep_alive))
    }

    /// Removes the streams of an ended session.
    pub(in crate::http) fn forget(&self, session: &str) {
        let mut kept = self.kept.lock();
        for (_, ended) in kept.extract_if(|_, kept| *kept.session == *session) {
            ended.log.end();
        }
    }
}

/// Logs the messages of the call, then its answer.
async fn record(log: &EventLog, mut messages: Receiver<ServerMessage>, mut call: InFlightCall) {
    let mut abandoned = pin!(log.abandoned(RESUME_TIMEOUT));
    let mut is_abandoned = false;
    let answer = loop {
        tokio::select! {
            biased;
            Some(message) = messages.recv() => log.append(message),
            answer = &mut call => break answer,
            () = &mut abandoned, if !is_abandoned => {
                call.client_gone();
                is_abandoned = true;
            }
        }
    };
    // Messages that were queued together with the answer go out before it.
    while let Ok(message) = messages.try_recv() {
        log.append(message);
    }
    if let Some(line) = answer.into_line() {
        log.append_line(&line);
    }
    log.end();
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::super::stream::MessageSender;
    use super::*;
    use mcp_core::server::{FrameReply, Peer};
    use tokio::sync::oneshot;

    const KEEP_ALIVE: Duration = Duration::from_secs(15);

    fn policy(polls: bool) -> ReplayPolicy {
        ReplayPolicy {
            session: "s".into(),
            polls,
            keep_alive: KEEP_ALIVE,
            request: None,
        }
    }

    #[test]
    fn event_id_names_its_process_and_its_request() {
        let frame = |id: &str| format!(r#"{{"id":{id},"method":"ping"}}"#).into_bytes();
        for request in ["1", "\"a-b.c\"", "\"\u{e4}\""] {
            let digits = request_digits(&frame(request));
            let log = EventLog::new(true, digits.as_deref()).unwrap();
            let event = format!("{}-0", log.id());
            assert!(event.starts_with(&format!("{:08x}", crate::process_id())));
            assert_eq!(lost_request(&event).as_deref(), Some(request));
        }
        assert!(request_digits(&frame(&"1".repeat(MAX_REQUEST_BYTES + 1))).is_none());
        let log = EventLog::new(true, None).unwrap();
        assert!(lost_request(&format!("{}-0", log.id())).is_none());
    }

    fn answer() -> FrameReply {
        let mut answer = FrameReply::nothing();
        answer.body = Some(b"{\"result\":1}".to_vec());
        answer
    }

    async fn next_chunk(replay: &mut Replay) -> Option<String> {
        let chunk = replay.next().await?;
        Some(String::from_utf8(chunk.to_vec()).unwrap())
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
        let call = InFlightCall::new(call, Some(Arc::default()));
        let started = streams.start(policy(true), None, messages, call);
        let mut replay = started.unwrap();
        let mut chunks = String::new();
        while let Some(chunk) = next_chunk(&mut replay).await {
            chunks += &chunk;
        }
        assert!(
            chunks.starts_with("id: ")
                && chunks.contains("retry: ")
                && chunks.contains("{\"n\":1}"),
            "{chunks}"
        );

        finish.send(()).unwrap();
        let last = last_id(&chunks);
        assert!(streams.resume("other", &last, KEEP_ALIVE).is_none());
        let mut replay = streams.resume("s", &last, KEEP_ALIVE).unwrap();
        let mut rest = String::new();
        while let Some(chunk) = next_chunk(&mut replay).await {
            rest += &chunk;
        }
        assert!(
            rest.contains("{\"n\":2}")
                && rest.contains("{\"result\":1}")
                && !rest.contains("{\"n\":1}"),
            "{rest}"
        );
        drop(replay);
        // The connection may have broken before the answer arrived: it is sent again.
        let mut replay = streams.resume("s", &last, KEEP_ALIVE).unwrap();
        assert_eq!(next_chunk(&mut replay).await.unwrap(), rest);
        drop(replay);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(streams.resume("s", &last, KEEP_ALIVE).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn completely_sent_streams_are_removed_for_others() {
        let streams = Arc::new(ResumableStreams::default());
        let mut open = Vec::new();
        for _ in 0..MAX_KEPT_STREAMS {
            assert!(streams.make_room());
            let (_sender, messages) = MessageSender::new();
            let call = InFlightCall::new(async { answer() }, None);
            open.push(streams.start(policy(false), None, messages, call).unwrap());
        }
        assert!(!streams.make_room());
        while next_chunk(&mut open[0]).await.is_some() {}
        drop(open.remove(0));
        let log = {
            let kept = streams.kept.lock();
            let sent = kept.values().find(|kept| kept.log.is_delivered());
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
        let large = "x".repeat(MAX_KEPT_BYTES / 2);
        let call = async move {
            for _ in 0..60 {
                sender.notify("y".repeat(100_000));
            }
            let mut answer = FrameReply::nothing();
            answer.body = Some(large.into_bytes());
            answer
        };
        let first = streams.start(policy(true), None, messages, InFlightCall::new(call, None));
        let first = first.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kept: usize = streams
            .kept
            .lock()
            .values()
            .map(|kept| kept.log.bytes())
            .sum();
        assert!(kept < MAX_KEPT_BYTES / 2 + 1000, "{kept}");
        let (_sender, messages) = MessageSender::new();
        let mut other = FrameReply::nothing();
        other.body = Some("z".repeat(MAX_KEPT_BYTES / 2).into_bytes());
        let call = InFlightCall::new(std::future::ready(other), None);
        let second = streams.start(policy(true), None, messages, call).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!streams.make_room());
        // One that was sent completely makes room.
        let mut replay = first;
        while next_chunk(&mut replay).await.is_some() {}
        assert!(streams.make_room());
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_expire_and_older_clients_are_not_disconnected() {
        let streams = Arc::new(ResumableStreams::default());
        let (sender, messages) = MessageSender::new();
        sender.disconnect();
        sender.notify("{\"n\":1}".into());
        let call = InFlightCall::new(async { answer() }, Some(Arc::default()));
        let started = streams.start(policy(false), None, messages, call);
        let mut replay = started.unwrap();
        let first = next_chunk(&mut replay).await.unwrap();
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
        let started = streams.start(
            policy(true),
            None,
            messages,
            InFlightCall::new(call, Some(Arc::new(gone.clone()))),
        );
        let mut replay = started.unwrap();
        let last = last_id(&next_chunk(&mut replay).await.unwrap());
        drop(replay);
        tokio::time::sleep(RESUME_TIMEOUT / 2).await;
        let replay = streams.resume("s", &last, KEEP_ALIVE).unwrap();
        tokio::time::sleep(RESUME_TIMEOUT * 2).await;
        assert!(!gone.is_cancelled());
        drop(replay);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(gone.is_cancelled());
    }
}
