//! Announcing changes of the tasks that somebody watches.
//!
//! Only tasks that somebody watches are looked at, by asking the agent server's REST API: what it
//! says there holds, whatever connection was lost in between. They are looked at when something is
//! heard of them, and now and then: the longer nothing happens, the less often.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::select_all;
use futures_util::stream;
use mcp_core::server::{Change, Changes};
use tokio::time::{Instant, sleep_until};

use super::uri::{self, Part};
use crate::OpenHands;
use crate::api::{Failure, TaskId};
use crate::events::Listener;
use crate::workspace::changes;

/// Between two looks at a task: at first, and at most.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));
/// While all that happens in it is heard; that it is deleted is not.
const LISTENING_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// At least, because models speak word by word.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Tasks that are asked for at the same time.
const MAX_CONCURRENT_POLLS: usize = 4;

/// The tasks that somebody watches.
type Watched = HashMap<TaskId, WatchedTask>;

/// A task that somebody watches.
struct WatchedTask {
    /// Its resources that are watched.
    resources: Vec<WatchedResource>,
    /// How it was when it was last seen; `None` before.
    seen: Option<TaskState>,
    /// Hears when something happens in it.
    listener: Listener,
    /// When it was last looked at.
    polled: Instant,
    interval: Duration,
    due: Instant,
}

struct WatchedResource {
    /// As those who watch wrote it.
    uri: String,
    part: Part,
    /// A change of it was announced since it is watched.
    announced: bool,
}

/// The facts about a task that differ once something has happened in it.
#[derive(Default, PartialEq)]
struct TaskState {
    /// Its status and when something last happened; `None` where there is no such task.
    status: Option<String>,
    /// Its files, as an id of git's; only where somebody watches them.
    files: Option<String>,
    /// They may change without an event: a command runs.
    silently: bool,
}

/// Announces changes for as long as the server runs.
pub(crate) async fn announce_changes(service: &OpenHands) {
    let mut subscribed = service.changes.watched();
    let mut tasks = Watched::new();
    loop {
        update_watched(service, &mut tasks, &subscribed.borrow_and_update());
        poll_due(service, &mut tasks).await;
        let next = tasks.values().map(|task| task.due).min();
        let next = async {
            match next {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = next => {}
            () = any_event(&mut tasks) => {}
            changed = subscribed.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Keeps what is still watched and adds what is new, to be looked at now.
fn update_watched(
    service: &OpenHands,
    tasks: &mut Watched,
    subscribed: &mcp_core::server::Watched,
) {
    for task in tasks.values_mut() {
        task.resources
            .retain(|resource| subscribed.contains_key(&resource.uri));
    }
    for uri in subscribed.keys() {
        let Some((id, part)) = uri::read(uri) else {
            continue;
        };
        let task = tasks.entry(id);
        let task = task.or_insert_with(|| WatchedTask::new(service.listeners.listen(id)));
        if task.resources.iter().all(|resource| resource.uri != *uri) {
            task.resources.push(WatchedResource {
                uri: uri.clone(),
                part,
                announced: false,
            });
            task.due = Instant::now();
        }
    }
    tasks.retain(|_, task| !task.resources.is_empty());
}

async fn poll_due(service: &OpenHands, tasks: &mut Watched) {
    let now = Instant::now();
    let due = tasks.iter_mut().filter(|(_, task)| task.due <= now);
    let polls = stream::iter(due).for_each_concurrent(MAX_CONCURRENT_POLLS, |(id, task)| {
        async move {
            match task.poll(service, *id).await {
                Ok(state) => task.update(state, &service.changes),
                // It is not known whether something has happened; the next look tells.
                Err(failure) => tracing::debug!(task = %id, ?failure, "cannot look at the task"),
            }
            task.polled = Instant::now();
            task.due = task.polled + task.interval;
            task.interval = task.longer_interval();
        }
    });
    polls.await;
}

/// Waits until something happens in one of the tasks, which is then due.
async fn any_event(tasks: &mut Watched) {
    if tasks.is_empty() {
        return std::future::pending().await;
    }
    let events = tasks.values_mut().map(|task| {
        Box::pin(async {
            task.listener.changed().await;
            // The event may not be stored yet, so another look follows soon.
            task.interval = POLL_INTERVAL.0;
            task.due = task.due.min(task.polled + MIN_POLL_INTERVAL);
        })
    });
    select_all(events).await;
}

impl WatchedTask {
    fn new(listener: Listener) -> Self {
        let now = Instant::now();
        Self {
            resources: Vec::new(),
            seen: None,
            listener,
            polled: now,
            interval: POLL_INTERVAL.0,
            due: now,
        }
    }

    async fn poll(&self, service: &OpenHands, id: TaskId) -> Result<TaskState, Failure> {
        let found = async {
            let server = service.servers.at(id).await?;
            let task = server.conversation(id).await?;
            Ok::<_, Failure>((server, task))
        };
        let (server, task) = match found.await {
            Ok(found) => found,
            Err(failure) if failure.is_no_task() => return Ok(TaskState::default()),
            Err(failure) => return Err(failure),
        };
        let is_still = task.execution_status.is_still();
        let status = Some(format!("{:?} {}", task.execution_status, task.updated_at));
        let seen = self.seen.as_ref().filter(|seen| seen.status == status);
        let files = match seen {
            _ if !self.watches(Part::Diff) => None,
            // No command runs in it.
            Some(TaskState { files, .. }) if files.is_some() && is_still => files.clone(),
            _ => changes::tree(&server, &task).await?,
        };
        Ok(TaskState {
            status,
            files,
            silently: self.watches(Part::Diff) && !is_still,
        })
    }

    /// The interval after the one that begins now, if nothing happens.
    fn longer_interval(&self) -> Duration {
        let silently = self.seen.as_ref().is_some_and(|seen| seen.silently);
        match self.listener.is_open() && !silently {
            true => LISTENING_POLL_INTERVAL,
            false => (2 * self.interval).min(POLL_INTERVAL.1),
        }
    }

    fn watches(&self, part: Part) -> bool {
        self.resources.iter().any(|resource| resource.part == part)
    }

    /// Announces what is not as it was. What happened between the last read of those who watch and
    /// the first look for them is not known, so a resource counts as changed then.
    fn update(&mut self, now: TaskState, changes: &Changes) {
        let seen = self.seen.as_ref();
        let status = seen.is_none_or(|seen| seen.status != now.status);
        let files = seen.is_none_or(|seen| seen.files != now.files);
        for resource in &mut self.resources {
            let changed = match resource.part {
                Part::Task => status || files,
                Part::Events => status,
                Part::Diff => files,
            };
            if changed || !resource.announced {
                resource.announced = true;
                changes.announce(Change::Resource(resource.uri.clone()));
            }
        }
        if status || files {
            self.interval = POLL_INTERVAL.0;
        }
        self.seen = Some(now);
    }
}
