//! Streams that survive their connection (2025-11-25, "Resumability and Redelivery").
//!
//! A reply that becomes a stream in a session is kept until its client has all of it. A client that
//! lost the connection, or was disconnected because the call takes long, comes back with the id of the
//! last event that it has and reads on.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::log::{EventLog, Replay};
use super::stream::{InFlightCall, ServerMessage};

/// Timeout for a client to come back.
const RESUME_TIMEOUT: Duration = Duration::from_secs(60);
/// Streams that are kept at the same time; more are streamed, but cannot be resumed.
const MAX_KEPT_STREAMS: usize = 512;

/// The streams that can be resumed.
#[derive(Default)]
pub(in crate::http) struct ResumableStreams {
    kept: Mutex<HashMap<String, KeptStream>>,
}

struct KeptStream {
    /// The session that the stream belongs to.
    session: String,
    log: Arc<EventLog>,
}

/// The session of a stream, and how its events are sent.
pub(in crate::http) struct ReplayPolicy {
    pub(in crate::http) session: String,
    /// The client knows that it may be disconnected (2025-11-25 and later).
    pub(in crate::http) polls: bool,
    pub(in crate::http) keep_alive: Duration,
}

impl ResumableStreams {
    /// True if there is room for another one.
    pub(in crate::http) fn has_room(&self) -> bool {
        self.kept().len() < MAX_KEPT_STREAMS
    }

    /// Runs `call` to its end, with or without a reader. `None` without randomness for an id.
    pub(in crate::http) fn start(
        self: &Arc<Self>,
        terms: ReplayPolicy,
        first: Option<ServerMessage>,
        messages: Receiver<ServerMessage>,
        call: InFlightCall,
    ) -> Option<Replay> {
        let log = Arc::new(EventLog::new(terms.polls)?);
        if let Some(first) = first {
            log.append(first);
        }
        let kept = KeptStream {
            session: terms.session,
            log: Arc::clone(&log),
        };
        self.kept().insert(log.id().to_owned(), kept);
        let reading = Replay::new(&log, 0, terms.keep_alive);
        let streams = Arc::clone(self);
        tokio::spawn(async move {
            record(&log, messages, call).await;
            tokio::select! {
                () = log.delivered() => {}
                () = tokio::time::sleep(RESUME_TIMEOUT) => {}
            }
            streams.kept().remove(log.id());
        });
        Some(reading)
    }

    /// The rest of a stream of `session` after the event `last`; `None` if there is nothing left to
    /// read. The reader before stops.
    pub(in crate::http) fn resume(
        &self,
        session: &str,
        last: &str,
        keep_alive: Duration,
    ) -> Option<Replay> {
        let (id, number) = last.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let kept = self.kept();
        let kept = kept.get(id).filter(|kept| kept.session == session)?;
        let next = number.checked_add(1)?;
        Some(Replay::new(&kept.log, next, keep_alive))
    }

    /// Forgets what an ended session has left.
    pub(in crate::http) fn forget(&self, session: &str) {
        self.kept().retain(|_, kept| {
            let stays = kept.session != session;
            if !stays {
                kept.log.end();
            }
            stays
        });
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, KeptStream>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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
    use std::future::poll_fn;

    use mcp_core::server::FrameReply;
    use mcp_core::server::Peer;
    use tokio::sync::oneshot;
    use tokio_util::sync::CancellationToken;

    use super::super::stream::MessageSender;
    use super::*;

    const KEEP_ALIVE: Duration = Duration::from_secs(15);

    fn policy(polls: bool) -> ReplayPolicy {
        ReplayPolicy {
            session: "s".into(),
            polls,
            keep_alive: KEEP_ALIVE,
        }
    }

    fn answer() -> FrameReply {
        let mut answer = FrameReply::nothing();
        answer.body = Some(b"{\"result\":1}".to_vec());
        answer
    }

    async fn piece(reading: &mut Replay) -> Option<String> {
        let piece = poll_fn(|cx| reading.poll_event(cx)).await?;
        Some(String::from_utf8(piece.to_vec()).unwrap())
    }

    /// The id in the last event of `piece`.
    fn last_id(piece: &str) -> String {
        let (_, id) = piece.rsplit_once("id: ").unwrap();
        id.lines().next().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn disconnected_client_resumes_and_gets_the_answer() {
        let streams = Arc::new(ResumableStreams::default());
        let (outbox, messages) = MessageSender::new();
        let (go_on, wait) = oneshot::channel::<()>();
        outbox.notify("{\"n\":1}".into());
        outbox.disconnect();
        let work = async move {
            wait.await.unwrap();
            outbox.notify("{\"n\":2}".into());
            answer()
        };
        let work = InFlightCall::new(work, CancellationToken::new());
        let started = streams.start(policy(true), None, messages, work);
        let mut reading = started.unwrap();
        let mut pieces = String::new();
        while let Some(piece) = piece(&mut reading).await {
            pieces += &piece;
        }
        assert!(
            pieces.starts_with("id: ")
                && pieces.contains("retry: ")
                && pieces.contains("{\"n\":1}"),
            "{pieces}"
        );

        go_on.send(()).unwrap();
        let last = last_id(&pieces);
        assert!(streams.resume("other", &last, KEEP_ALIVE).is_none());
        let mut reading = streams.resume("s", &last, KEEP_ALIVE).unwrap();
        let mut rest = String::new();
        while let Some(piece) = piece(&mut reading).await {
            rest += &piece;
        }
        assert!(
            rest.contains("{\"n\":2}")
                && rest.contains("{\"result\":1}")
                && !rest.contains("{\"n\":1}"),
            "{rest}"
        );
        tokio::task::yield_now().await;
        assert!(streams.resume("s", &last, KEEP_ALIVE).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn streams_expire_and_older_clients_are_not_disconnected() {
        let streams = Arc::new(ResumableStreams::default());
        let (outbox, messages) = MessageSender::new();
        outbox.disconnect();
        outbox.notify("{\"n\":1}".into());
        let work = InFlightCall::new(async { answer() }, CancellationToken::new());
        let started = streams.start(policy(false), None, messages, work);
        let mut reading = started.unwrap();
        let first = piece(&mut reading).await.unwrap();
        assert!(
            !first.contains("retry") && first.contains("{\"n\":1}"),
            "{first}"
        );
        drop(reading);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(streams.kept().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn call_of_a_client_that_stays_away_is_cancelled() {
        let streams = Arc::new(ResumableStreams::default());
        let (outbox, messages) = MessageSender::new();
        let left = CancellationToken::new();
        let waiting = left.clone();
        let work = async move {
            let _outbox = outbox;
            waiting.cancelled().await;
            answer()
        };
        let started = streams.start(
            policy(true),
            None,
            messages,
            InFlightCall::new(work, left.clone()),
        );
        let mut reading = started.unwrap();
        let last = last_id(&piece(&mut reading).await.unwrap());
        drop(reading);
        tokio::time::sleep(RESUME_TIMEOUT / 2).await;
        let reading = streams.resume("s", &last, KEEP_ALIVE).unwrap();
        tokio::time::sleep(RESUME_TIMEOUT * 2).await;
        assert!(!left.is_cancelled());
        drop(reading);
        tokio::time::sleep(RESUME_TIMEOUT + Duration::from_secs(1)).await;
        assert!(left.is_cancelled());
    }
}
