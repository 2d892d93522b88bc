//! The end of replacements that a server which was killed has begun.

use std::sync::Arc;

use futures_util::future::join_all;

use super::super::prelude::*;
use super::engine_clock::EngineClock;
use super::kept_name::{is_kept, ran};
use super::replacement::{Replacement, STEPS_TIMEOUT};
use crate::engine::{ContainerSummary, Engine};
use crate::policy::{KEPT, Policy, REPLACES};

/// The delay between two attempts, also to reach an engine that is down.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The attempts to bring back an old container.
const MAX_ATTEMPTS: u32 = 12;

/// A replacement that was begun.
struct Begun {
    /// For the new container to get healthy; `None` if the old one did not run.
    timeout: Option<Duration>,
    /// Until the server that began it would have ended it. It may be another one, which is still at work.
    left: Duration,
}

/// Finishes replacements that a server which was killed has begun, once the engine is up.
pub(crate) async fn recover(engine: Engine, policy: Arc<Policy>, redact: bool) {
    let filter = format!(r#"{{"name":["{KEPT}"]}}"#);
    let kept: Vec<ContainerSummary> = loop {
        let path = Path::to("/containers/json").query("filters", &filter);
        match engine.try_get(path.query("all", true)).await {
            Ok(containers) => break containers,
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    };
    // At the same time: one may wait minutes for its new container.
    let kept = kept.iter().filter(|container| is_kept(container));
    let all = kept.map(|container| finish(&engine, &policy, redact, container));
    join_all(all).await;
}

async fn finish(engine: &Engine, policy: &Arc<Policy>, redact: bool, kept: &ContainerSummary) {
    let name = kept
        .display_name()
        .rsplit_once(KEPT)
        .map_or("", |(name, _)| name);
    let names = (ContainerName::new(name), ContainerName::new(&kept.id));
    let (Ok(name), Ok(old)) = names else { return };
    let ran = ran(kept.display_name());
    let Some(Begun { left, .. }) = begun(engine, &name, &old, ran).await else {
        return;
    };
    tokio::time::sleep(left).await;
    // Several servers may start at the same time. One that was killed in the middle leaves a rest.
    for _ in 0..MAX_ATTEMPTS {
        let is_left = match engine.try_inspect(&old).await {
            Ok(old) => old.display_name() == kept.display_name(),
            // An engine that does not answer says nothing of it.
            Err(failure) => !failure.is_no_such_container(),
        };
        let Some(Begun { timeout, .. }) = begun(engine, &name, &old, ran).await.filter(|_| is_left)
        else {
            tracing::info!("a replacement of {name} was ended by another server");
            return;
        };
        let replacement = Replacement {
            engine: engine.clone(),
            policy: Arc::clone(policy),
            redact,
            timeout,
            name: name.clone(),
            old: old.clone(),
        };
        let Err(failure) = replacement.settle(None).await else {
            tracing::info!("a replacement of {name} that had broken off is complete");
            return;
        };
        let cause = Redactor::new(true).text(failure.cause.message());
        let Some(rollback) = failure.rollback else {
            tracing::warn!("{name} was not replaced, the old container is back: {cause}");
            return;
        };
        let rollback = Redactor::new(true).text(rollback.message());
        tracing::warn!("{name} was not replaced: {cause}; the old one is not back: {rollback}");
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// The replacement of `old`, which had `name`, and `ran`; `None` if another container has the name now.
async fn begun(
    engine: &Engine,
    name: &ContainerName,
    old: &ContainerName,
    ran: bool,
) -> Option<Begun> {
    let new = loop {
        match engine.try_inspect(name).await {
            Ok(new) => break new,
            // It was not created yet, or removed again: the old one comes back.
            Err(failure) if failure.is_no_such_container() => {
                return Some(Begun {
                    timeout: ran.then_some(Duration::ZERO),
                    left: STEPS_TIMEOUT,
                });
            }
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    };
    let mut words = new.config.labels.get(REPLACES)?.split(' ');
    let is_ours = words.next() == Some(old.as_str());
    let mut seconds = || words.next()?.parse().ok().map(Duration::from_secs);
    let timeout = seconds().filter(|timeout| !timeout.is_zero());
    let longest = seconds().unwrap_or_default();
    let age = EngineClock::read(engine).await.age(&new.created);
    is_ours.then(|| Begun {
        timeout,
        left: longest.saturating_sub(age),
    })
}
