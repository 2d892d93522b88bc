//! Tells clients what has changed: one stream of the engine's events for all of them.
//!
//! The stream is opened again whenever it ends, from where it ended. What happened while the engine
//! was away is not known, so everything counts as changed then.

mod pending;

use std::time::Duration;

use mcp_core::server::Changes;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::pending::Pending;
use crate::engine::{Engine, Event, Failure};

/// What happens within this time is told at once, each change only once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A stream that was silent for so long is opened anew: it may be cut off without a word.
const SILENCE: Duration = Duration::from_secs(300);
/// Between two attempts to reach an engine that is away: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long an engine may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where the next stream begins.
#[derive(Debug, Default)]
struct Place {
    /// Unix nanoseconds of the first event that was not told yet.
    since: Option<i64>,
    /// A stream has ended, so something may have been missed.
    broken: bool,
}

/// Announces changes for ever.
pub(crate) async fn follow(engine: &Engine, changes: &Changes) {
    let mut place = Place::default();
    let mut pause = PAUSES.0;
    loop {
        if engine.version(PATIENCE).await.is_ok() {
            if std::mem::take(&mut place.broken) {
                everything(engine).await.announce(changes).await;
            }
            pause = PAUSES.0;
            match stream(engine, changes, &mut place).await {
                Ok(()) => continue,
                Err(failure) => tracing::debug!("the event stream broke: {failure:?}"),
            }
            place.broken = true;
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// Announces what one stream tells. Ok where it is only to be opened anew.
async fn stream(engine: &Engine, changes: &Changes, place: &mut Place) -> Result<(), Failure> {
    let mut events = engine.events(place.since)?;
    let mut pending = Pending::default();
    let mut due = Instant::now();
    let ended = loop {
        tokio::select! {
            event = timeout(SILENCE, events.next()) => match event {
                Ok(Ok(Some(event))) => {
                    place.since = Some(after(&event));
                    if pending.is_empty() {
                        due = Instant::now() + DEBOUNCE;
                    }
                    pending.add(&event);
                }
                Ok(Ok(None)) => break Err(Failure::Unreadable("the stream ended".into())),
                Ok(Err(failure)) => break Err(failure),
                Err(_) => break Ok(()),
            },
            () = sleep_until(due), if !pending.is_empty() => {
                std::mem::take(&mut pending).announce(changes).await;
            }
        }
    };
    pending.announce(changes).await;
    ended
}

/// All that clients may have seen of the engine.
async fn everything(engine: &Engine) -> Pending {
    let containers = engine.list(true).await.unwrap_or_default();
    Pending::all(&containers)
}

fn after(event: &Event) -> i64 {
    match event.time_nano {
        0 => event.time.saturating_mul(1_000_000_000),
        nanos => nanos,
    }
    .saturating_add(1)
}
