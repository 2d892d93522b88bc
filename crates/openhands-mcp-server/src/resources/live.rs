//! Tells those who watch a task that it has changed.
//!
//! Only tasks that somebody watches are looked at, by asking the agent server's REST API: what it
//! says there holds, whatever connection was lost in between. They are looked at when something is
//! heard of them, and now and then: the longer nothing happens, the less often.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::select_all;
use futures_util::stream;
use mcp_core::server::{Change, Changes, Watched};
use tokio::time::{Instant, sleep_until};

use super::uri::{self, Part};
use crate::OpenHands;
use crate::api::{Conversation, Failure, quoted};
use crate::changes::snapshot;
use crate::ears::Ear;
use crate::prepare;
use crate::task_id::TaskId;

/// Between two looks at a task: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));
/// While all that happens in it is heard; that it is deleted is not.
const HEARING_PAUSE: Duration = Duration::from_secs(10);
/// At least, because models speak word by word.
const GAP: Duration = Duration::from_millis(250);
/// Tasks that are asked for at the same time.
const AT_ONCE: usize = 4;

/// A task that somebody watches.
struct Subject {
    /// Its resources that are watched.
    resources: Vec<Watch>,
    /// How it was when it was last seen; `None` before.
    seen: Option<Mark>,
    /// Hears when something happens in it.
    ear: Ear,
    /// When it was last looked at.
    looked: Instant,
    pause: Duration,
    due: Instant,
}

/// A resource that somebody watches.
struct Watch {
    /// As those who watch wrote it.
    uri: String,
    part: Part,
    /// Something was told of it since it is watched.
    told: bool,
}

/// What differs once something has happened.
#[derive(Default, PartialEq)]
struct Mark {
    /// Its state and when something last happened; `None` where there is no such task.
    state: Option<String>,
    /// Its files, as an id of git's; only where somebody watches them.
    files: Option<String>,
    /// They may change without a word: a command runs.
    silently: bool,
}

impl OpenHands {
    /// Tells of changes for as long as the server runs.
    pub(crate) async fn tell(&self) {
        let mut watched = self.changes.watched();
        let mut subjects = HashMap::new();
        loop {
            self.renew(&mut subjects, &watched.borrow_and_update());
            self.look_at_due(&mut subjects).await;
            let next = subjects.values().map(|subject: &Subject| subject.due).min();
            let next = async {
                match next {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = next => {}
                () = heard(&mut subjects) => {}
                changed = watched.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    async fn look_at_due(&self, subjects: &mut HashMap<TaskId, Subject>) {
        let now = Instant::now();
        let due = subjects
            .iter_mut()
            .filter(|(_, subject)| subject.due <= now);
        let looks = stream::iter(due).for_each_concurrent(AT_ONCE, |(id, subject)| async move {
            match self.mark(*id, subject).await {
                Ok(mark) => subject.update(mark, &self.changes),
                // It is not known whether something has happened; the next look tells.
                Err(failure) => tracing::debug!(task = %id, ?failure, "cannot look at the task"),
            }
            subject.looked = Instant::now();
            subject.due = subject.looked + subject.pause;
            subject.pause = subject.longer();
        });
        looks.await;
    }

    /// Keeps what is still watched and adds what is new, to be looked at now.
    fn renew(&self, subjects: &mut HashMap<TaskId, Subject>, watched: &Watched) {
        for subject in subjects.values_mut() {
            let resources = &mut subject.resources;
            resources.retain(|watch| watched.contains_key(&watch.uri));
        }
        for uri in watched.keys() {
            let Some((id, part)) = uri::read(uri) else {
                continue;
            };
            let subject = subjects.entry(id);
            let subject =
                subject.or_insert_with(|| Subject::new(self.ears.listen(&self.servers, id)));
            if subject.resources.iter().all(|watch| watch.uri != *uri) {
                let told = false;
                let uri = uri.clone();
                subject.resources.push(Watch { uri, part, told });
                subject.due = Instant::now();
            }
        }
        subjects.retain(|_, subject| !subject.resources.is_empty());
    }

    async fn mark(&self, id: TaskId, subject: &Subject) -> Result<Mark, Failure> {
        let found = async { self.at(id).await?.conversation(id).await };
        let task = match found.await {
            Ok(task) => task,
            Err(failure) if failure.is_no_task() => return Ok(Mark::default()),
            Err(failure) => return Err(failure),
        };
        let state = Some(format!("{:?} {}", task.execution_status, task.updated_at));
        let seen = subject.seen.as_ref().filter(|seen| seen.state == state);
        let files = match seen {
            _ if !subject.watches(Part::Diff) => None,
            // Nobody works in it.
            Some(Mark { files, .. }) if files.is_some() && task.execution_status.is_still() => {
                files.clone()
            }
            _ => self.files(id, &task).await?,
        };
        let silently = subject.watches(Part::Diff) && !task.execution_status.is_still();
        Ok(Mark {
            state,
            files,
            silently,
        })
    }

    /// The files of a task, as an id of git's; `None` where there is no git.
    async fn files(&self, id: TaskId, task: &Conversation) -> Result<Option<String>, Failure> {
        let directory = quoted(&task.workspace.working_dir);
        let script = format!("cd -P -- {directory} || exit 0\n{}", snapshot());
        let printed = self.at(id).await?.execute(&script).await?;
        Ok(prepare::base(printed.text()))
    }
}

impl Subject {
    fn new(ear: Ear) -> Self {
        let now = Instant::now();
        Self {
            resources: Vec::new(),
            seen: None,
            ear,
            looked: now,
            pause: PAUSES.0,
            due: now,
        }
    }

    /// The pause after the one that begins now, if nothing happens.
    fn longer(&self) -> Duration {
        let silently = self.seen.as_ref().is_some_and(|seen| seen.silently);
        match self.ear.is_open() && !silently {
            true => HEARING_PAUSE,
            false => (2 * self.pause).min(PAUSES.1),
        }
    }

    fn watches(&self, part: Part) -> bool {
        self.resources.iter().any(|watch| watch.part == part)
    }

    /// Tells what is not as it was. What happened between the last read of those who watch and the
    /// first look for them is not known, so a resource counts as changed then.
    fn update(&mut self, mark: Mark, changes: &Changes) {
        let seen = self.seen.as_ref();
        let state = seen.is_none_or(|seen| seen.state != mark.state);
        let files = seen.is_none_or(|seen| seen.files != mark.files);
        for watch in &mut self.resources {
            let changed = match watch.part {
                Part::Task => state || files,
                Part::Events => state,
                Part::Diff => files,
            };
            if changed || !watch.told {
                watch.told = true;
                changes.announce(Change::Resource(watch.uri.clone()));
            }
        }
        if state || files {
            self.pause = PAUSES.0;
        }
        self.seen = Some(mark);
    }
}

/// Waits until something is heard of one of them, which is then due.
async fn heard(subjects: &mut HashMap<TaskId, Subject>) {
    if subjects.is_empty() {
        return std::future::pending().await;
    }
    let ears = subjects.values_mut().map(|subject| {
        Box::pin(async {
            subject.ear.heard().await;
            // What is told may not be stored yet, so another look follows soon.
            subject.pause = PAUSES.0;
            subject.due = subject.due.min(subject.looked + GAP);
        })
    });
    select_all(ears).await;
}
