//! Tells clients what has changed: one stream of the engine's events for all of them.
//!
//! The stream is opened again whenever it ends, from where it ended. What happened while the engine
//! was away is not known, so everything counts as changed then.

mod pending;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_core::server::Server;
use tokio::time::{Instant, sleep_until, timeout};
use upstream::poll::Backoff;

use self::pending::Pending;
use crate::docker::Docker;
use crate::engine::Event;
use crate::resources;

/// What happens within this time is told at once, each change only once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A stream that was silent for so long is opened anew: it may be cut off without a word.
const SILENCE: Duration = Duration::from_secs(300);
/// Between two attempts to reach an engine that is away.
const LONGEST_DELAY: Duration = Duration::from_secs(2);
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), LONGEST_DELAY);
/// How long an engine may take to say that it is there.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Follows the engine's events and announces what they change.
pub(crate) struct Follower {
    docker: Arc<Docker>,
    server: Arc<Server>,
    /// Unix nanoseconds from which on nothing was told yet. At first by our own clock, so that what
    /// happens while the first stream is opened is told too.
    since: i64,
}

impl Follower {
    pub(crate) fn new(docker: Arc<Docker>, server: Arc<Server>) -> Self {
        Self {
            docker,
            server,
            since: now(),
        }
    }

    /// Goes on for ever, whatever happens to the engine.
    pub(crate) async fn run(mut self) {
        // Whether a stream has ended, so that something may have been missed.
        let mut broken = false;
        let mut delays = RETRY.delays();
        loop {
            if self.docker.engine.version(PROBE_TIMEOUT).await.is_ok()
                && self.catch_up(broken).await
            {
                let began = Instant::now();
                broken = self.stream().await;
                if began.elapsed() > LONGEST_DELAY {
                    delays.reset();
                }
            }
            delays.sleep().await;
        }
    }

    /// Announces what one stream tells, up to its end. Whether it broke.
    async fn stream(&mut self) -> bool {
        let mut events = self.docker.engine.events(self.since);
        let mut pending = Pending::default();
        let mut due = Instant::now();
        let broken = loop {
            tokio::select! {
                event = timeout(SILENCE, events.next()) => match event {
                    Ok(Ok(Some(event))) => {
                        self.since = after(&event);
                        if pending.is_empty() {
                            due = Instant::now() + DEBOUNCE;
                        }
                        pending.add(&event);
                    }
                    Ok(Ok(None)) => break true,
                    Ok(Err(failure)) => {
                        tracing::debug!("the event stream broke: {failure:?}");
                        break true;
                    }
                    Err(_) => break false,
                },
                () = sleep_until(due), if !pending.is_empty() => {
                    self.announce(std::mem::take(&mut pending)).await;
                }
            }
        };
        self.announce(pending).await;
        broken
    }

    /// Says what there is; after a break also that all that clients may have seen may be another.
    /// False if the engine is away again.
    async fn catch_up(&self, broken: bool) -> bool {
        if !broken {
            resources::publish(&self.docker, &self.server).await;
            return true;
        }
        let Ok(containers) = self.docker.containers(true).await else {
            return false;
        };
        self.announce(Pending::all(&containers)).await;
        true
    }

    async fn announce(&self, pending: Pending) {
        if pending.changes_list() {
            resources::publish(&self.docker, &self.server).await;
        }
        pending.announce(&self.docker.changes).await;
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX)
}

fn after(event: &Event) -> i64 {
    let time = match event.time_nano {
        0 => event.time.saturating_mul(1_000_000_000),
        nanos => nanos,
    };
    time.saturating_add(1)
}
