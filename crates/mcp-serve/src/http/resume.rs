//! Streams that survive their connection (2025-11-25, "Resumability and Redelivery").
//!
//! A reply that becomes a stream in a session is kept until its client has all of it. A client that
//! lost the connection, or that was let go because the work takes long, comes back with the id of
//! the last event that it has and reads on.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::stream::{Said, Work};
use super::transcript::{Reading, Transcript};

/// How long a client that does not read may take to come back.
const PATIENCE: Duration = Duration::from_secs(60);
/// Streams that are kept at the same time; more are streamed, but cannot be resumed.
const MAX_KEPT: usize = 512;

/// The streams that can be resumed.
#[derive(Default)]
pub(super) struct Streams {
    kept: Mutex<HashMap<String, Kept>>,
}

struct Kept {
    /// The session that it belongs to.
    session: String,
    transcript: Arc<Transcript>,
}

/// The session of a stream, and how its events are sent.
pub(super) struct Terms {
    pub(super) session: String,
    /// The client knows that it may be let go (2025-11-25 and later).
    pub(super) polls: bool,
    pub(super) keep_alive: Duration,
}

impl Streams {
    /// True if there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.kept().len() < MAX_KEPT
    }

    /// Lets `work` run to its end, whoever reads what it says. `None` without randomness for an id.
    pub(super) fn start(
        self: &Arc<Self>,
        terms: Terms,
        said: Option<Said>,
        messages: Receiver<Said>,
        work: Work,
    ) -> Option<Reading> {
        let transcript = Arc::new(Transcript::new(terms.polls)?);
        if let Some(said) = said {
            transcript.hear(said);
        }
        let kept = Kept {
            session: terms.session,
            transcript: Arc::clone(&transcript),
        };
        self.kept().insert(transcript.id().to_owned(), kept);
        let reading = Reading::of(&transcript, 0, terms.keep_alive);
        let streams = Arc::clone(self);
        tokio::spawn(async move {
            record(&transcript, messages, work).await;
            tokio::select! {
                () = transcript.delivered() => {}
                () = tokio::time::sleep(PATIENCE) => {}
            }
            streams.kept().remove(transcript.id());
        });
        Some(reading)
    }

    /// The rest of a stream of `session` after the event `last`; `None` if there is nothing left to
    /// read. Whoever read it until now stops.
    pub(super) fn resume(
        &self,
        session: &str,
        last: &str,
        keep_alive: Duration,
    ) -> Option<Reading> {
        let (id, number) = last.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let kept = self.kept();
        let kept = kept.get(id).filter(|kept| kept.session == session)?;
        let next = number.checked_add(1)?;
        Some(Reading::of(&kept.transcript, next, keep_alive))
    }

    /// Forgets what an ended session has left.
    pub(super) fn forget(&self, session: &str) {
        self.kept().retain(|_, kept| {
            let stays = kept.session != session;
            if !stays {
                kept.transcript.end();
            }
            stays
        });
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down what the call says, then its answer.
async fn record(transcript: &Transcript, mut messages: Receiver<Said>, mut work: Work) {
    let mut abandoned = pin!(transcript.abandoned(PATIENCE));
    let mut is_left = false;
    let answer = loop {
        tokio::select! {
            biased;
            Some(said) = messages.recv() => transcript.hear(said),
            answer = &mut work => break answer,
            () = &mut abandoned, if !is_left => {
                work.leave();
                is_left = true;
            }
        }
    };
    // What it said in the same breath goes out before its answer.
    while let Ok(said) = messages.try_recv() {
        transcript.hear(said);
    }
    if let Some(line) = answer.into_line() {
        transcript.add(&line);
    }
    transcript.end();
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use mcp_core::server::Answer;
    use mcp_core::tool::Peer;
    use tokio::sync::oneshot;
    use tokio_util::sync::CancellationToken;

    use super::super::stream::Outbox;
    use super::*;

    const KEEP_ALIVE: Duration = Duration::from_secs(15);

    fn terms(polls: bool) -> Terms {
        Terms {
            session: "s".into(),
            polls,
            keep_alive: KEEP_ALIVE,
        }
    }

    fn answer() -> Answer {
        let mut answer = Answer::nothing();
        answer.body = Some(b"{\"result\":1}".to_vec());
        answer
    }

    async fn piece(reading: &mut Reading) -> Option<String> {
        let piece = poll_fn(|cx| reading.poll_event(cx)).await?;
        Some(String::from_utf8(piece.to_vec()).unwrap())
    }

    /// The id in the last event of `piece`.
    fn last_id(piece: &str) -> String {
        let (_, id) = piece.rsplit_once("id: ").unwrap();
        id.lines().next().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_was_let_go_comes_back_for_the_answer() {
        let streams = Arc::new(Streams::default());
        let (outbox, messages) = Outbox::new();
        let (go_on, wait) = oneshot::channel::<()>();
        outbox.notify("{\"n\":1}".into());
        outbox.disconnect();
        let work = async move {
            wait.await.unwrap();
            outbox.notify("{\"n\":2}".into());
            answer()
        };
        let work = Work::new(work, CancellationToken::new());
        let started = streams.start(terms(true), None, messages, work);
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
    async fn nothing_is_kept_for_ever_and_older_clients_are_not_let_go() {
        let streams = Arc::new(Streams::default());
        let (outbox, messages) = Outbox::new();
        outbox.disconnect();
        outbox.notify("{\"n\":1}".into());
        let work = Work::new(async { answer() }, CancellationToken::new());
        let started = streams.start(terms(false), None, messages, work);
        let mut reading = started.unwrap();
        let first = piece(&mut reading).await.unwrap();
        assert!(
            !first.contains("retry") && first.contains("{\"n\":1}"),
            "{first}"
        );
        drop(reading);
        tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;
        assert!(streams.kept().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stays_away_is_given_up() {
        let streams = Arc::new(Streams::default());
        let (outbox, messages) = Outbox::new();
        let left = CancellationToken::new();
        let waiting = left.clone();
        let work = async move {
            let _outbox = outbox;
            waiting.cancelled().await;
            answer()
        };
        let started = streams.start(terms(true), None, messages, Work::new(work, left.clone()));
        let mut reading = started.unwrap();
        let last = last_id(&piece(&mut reading).await.unwrap());
        drop(reading);
        tokio::time::sleep(PATIENCE / 2).await;
        let reading = streams.resume("s", &last, KEEP_ALIVE).unwrap();
        tokio::time::sleep(PATIENCE * 2).await;
        assert!(!left.is_cancelled());
        drop(reading);
        tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;
        assert!(left.is_cancelled());
    }
}
