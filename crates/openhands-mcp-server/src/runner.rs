//! The runs of tasks: their slots, their starts, and one loop in memory that enforces their limits. After a restart it
//! begins again with the tasks that the agent server lists as running.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout};
use upstream::poll::Backoff;

use crate::api::tags::{ConversationTags, StopReason, tag};
use crate::api::{
    AgentServer, ApiFailure, ApiResult, Backend, Conversation, Execution, Servers, TaskId,
    event_kind,
};
use crate::git::{gaps, reason, snapshot_or_reason};
use crate::state::TaskFacts;
use crate::workspace::{LeftOver, interrupt, left_over};

/// The interval at which running tasks are checked.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a list of tasks, also one that failed, as a multiple of the time that it took.
const LIST_PAUSE: u32 = 20;
/// The interval at which a call asks again for a slot.
const SLOT_INTERVAL: Duration = Duration::from_millis(300);
/// The time from the end of a run until its deadline is removed: the call that stopped it may set a tag first, and
/// one that starts the next run may take as long.
const ENDED_GRACE: Duration = Duration::from_secs(15);
/// The delays between the attempts of a stop.
const STOP_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The time in which a start that was under way runs a task that was stopped before it had begun.
const LATE_START: Duration = Duration::from_secs(120);
/// The reason for the agent whose action no user has allowed.
const NOT_ALLOWED: &str = "This was not allowed and not done. Do it again if it is still needed.";
/// The time in which the agent server records the start of a run.
const RUN_START_TIMEOUT: Duration = Duration::from_secs(10);
const START_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// The intervals at which a task is looked at that waits for its repository, and the time for that. The script that
/// fetches it ends after a quarter of an hour, and a snapshot may follow: a script without an end by then is lost.
const BEGIN_BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(2));
const REPOSITORY_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// The time in which such a task waits for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(60);

/// The commands of a task after its stop.
pub(crate) struct Stopped {
    /// The rest of the last command line may have run.
    pub(crate) rest_may_have_run: bool,
    pub(crate) left_over: LeftOver,
}

/// The stop of a task, and what is done of it.
struct Stop {
    id: TaskId,
    reason: StopReason,
    began: Instant,
    /// The lock of the task until it is tagged. A call that runs it again has to wait: a late interrupt would stop that
    /// run, and a late tag name it as stopped.
    lock: Option<Guard>,
    is_interrupted: bool,
    is_tagged: bool,
    /// The number of messages of its user, if it has never run: a start that was under way may run it yet.
    unbegun: Option<u64>,
    /// Nothing is left to do.
    is_over: bool,
}

impl Stop {
    fn new(id: TaskId, reason: StopReason, lock: Option<Guard>) -> Self {
        Self {
            id,
            reason,
            began: Instant::now(),
            lock,
            is_interrupted: false,
            is_tagged: false,
            unbegun: None,
            is_over: false,
        }
    }
}

/// The slots and the limits of tasks that run at the agent server.
pub(crate) struct Runner {
    servers: Servers,
    /// The limit of tasks that run at once.
    max_parallel: usize,
    slots: Slots,
    /// The runs that may have a deadline, and when each was last seen at work.
    limited: Mutex<HashMap<TaskId, Instant>>,
    /// The time from which the running tasks may be listed again.
    next_list: Mutex<Instant>,
    /// The tasks that begin as soon as they can.
    beginning: Mutex<HashSet<TaskId>>,
    /// All tags of a task are replaced at once, so one call at a time changes them.
    pub(crate) locks: Locks,
}

impl Runner {
    /// Does not connect.
    pub(crate) fn new(servers: Servers, max_parallel: u32) -> Self {
        Self {
            servers,
            max_parallel: max_parallel as usize,
            slots: Slots::default(),
            limited: Mutex::default(),
            next_list: Mutex::new(Instant::now()),
            beginning: Mutex::default(),
            locks: Locks::default(),
        }
    }

    /// Enforces limits until the server stops.
    pub(crate) async fn enforce_limits(self: &Arc<Self>) {
        loop {
            if let Err(failure) = self.tick().await {
                tracing::debug!(?failure, "cannot check the limits of tasks");
            }
            sleep(TICK_INTERVAL).await;
        }
    }

    /// Takes a slot for a task that starts.
    ///
    /// # Errors
    /// All are taken ([`ApiFailure::Full`]), or the agent server does not answer.
    pub(crate) async fn take_slot(&self) -> ApiResult<Slot> {
        let before = self.slots.starting();
        let (running, max) = match self.servers.backend().await? {
            Backend::Agent(server) => (server.count_running().await?, self.max_parallel),
            // Tasks in sandboxes need no slot.
            Backend::App(_) => (0, usize::MAX),
        };
        let slot = self.slots.try_take(running, before, max);
        slot.ok_or(ApiFailure::Full)
    }

    /// Stops a task with its command line and tags it with the reason, under its lock: `lock`, or the one that this call
    /// gets after the interrupt. The stop is completed in the background if something is left.
    pub(crate) async fn stop(
        self: &Arc<Self>,
        server: &AgentServer,
        id: TaskId,
        reason: StopReason,
        lock: Option<Guard>,
    ) -> ApiResult<Stopped> {
        let mut stop = Stop::new(id, reason, lock);
        let stopped = self.try_stop(server, &mut stop).await?;
        Arc::clone(self).complete_later(stop);
        Ok(stopped)
    }

    /// Stops a task whose caller has cancelled the call. The stop goes on if the call has no time left for it, and until
    /// the agent server can be reached: nobody would notice that the task goes on.
    pub(crate) async fn stop_abandoned(self: &Arc<Self>, id: TaskId) {
        let runner = Arc::clone(self);
        let interrupted = tokio::spawn(async move {
            let mut stop = Stop::new(id, StopReason::Cancelled, None);
            runner.repeat(&mut stop, |stop| stop.is_interrupted).await;
            runner.complete_later(stop);
        });
        match interrupted.await {
            Ok(()) => tracing::info!(task = %id, "task stopped, the call was cancelled"),
            Err(failure) => tracing::warn!(task = %id, %failure, "the stop has failed"),
        }
    }

    fn complete_later(self: Arc<Self>, mut stop: Stop) {
        if !stop.is_over {
            tokio::spawn(async move {
                sleep(TICK_INTERVAL).await;
                self.repeat(&mut stop, |_| false).await;
            });
        }
    }

    /// Repeats the attempts of a stop until nothing is left to do, or that is enough.
    async fn repeat(&self, stop: &mut Stop, is_enough: fn(&Stop) -> bool) {
        let mut delays = STOP_BACKOFF.delays();
        loop {
            let attempt = async {
                let server = self.servers.for_task(stop.id).await?;
                self.try_stop(&server, stop).await
            };
            if let Err(failure) = attempt.await {
                tracing::warn!(task = %stop.id, ?failure, "cannot stop the task");
                stop.is_over = !failure.may_be_repeated();
            }
            if stop.is_over || is_enough(stop) {
                return;
            }
            self.hold(stop).await;
            delays.sleep().await;
        }
    }

    /// An attempt of a stop, which does what is left to do: the interrupt; the tag, because without the reason the task
    /// looks paused or about to begin; and another interrupt if a start that was under way runs the task.
    async fn try_stop(&self, server: &AgentServer, stop: &mut Stop) -> ApiResult<Stopped> {
        let (id, reason) = (stop.id, stop.reason);
        let (was_tagged, is_first) = (stop.is_tagged, !stop.is_interrupted);
        let mut stopped = Stopped {
            rest_may_have_run: false,
            left_over: LeftOver::Unknown,
        };
        if is_first {
            stopped.rest_may_have_run = interrupt(server, id).await?;
            stop.is_interrupted = true;
        }
        // Tags last, because they cannot be set during a step.
        self.hold(stop).await;
        let runs = |task: &Conversation| task.execution_status == Execution::Running;
        let mut read = server.conversation(id).await;
        if let Ok(task) = &read {
            // Another call runs it again, and has cleared the reason.
            if was_tagged && task.tags.stop_reason() != Some(reason) {
                stop.is_over = true;
                return Ok(stopped);
            }
            // A start that had the lock may have run it after the interrupt.
            if runs(task) && (is_first || stop.unbegun.is_some()) {
                // A message after the stop is that of its user, who runs it.
                if !is_first && Some(server.count_messages(id, "user").await?) != stop.unbegun {
                    stop.is_over = true;
                    return Ok(stopped);
                }
                stop.is_interrupted = false;
                stopped.rest_may_have_run |= interrupt(server, id).await?;
                stop.is_interrupted = true;
                read = server.conversation(id).await;
            }
        }
        let task = match read {
            Ok(task) => task,
            Err(failure) => {
                tracing::warn!(task = %id, ?failure, "cannot read a task that was stopped");
                stop.is_over = !failure.may_be_repeated();
                return Ok(stopped);
            }
        };
        let is_late = stop.began.elapsed() > LATE_START;
        // Its last step is still ending.
        if runs(&task) && !is_first {
            stop.is_over = is_late;
            return Ok(stopped);
        }
        if !was_tagged {
            let is_new = task.age(server.now()) < LATE_START;
            let may_begin = stop.unbegun.is_none() && is_new;
            if may_begin && !server.has_begun_since(id, None).await.unwrap_or(true) {
                stop.unbegun = server.count_messages(id, "user").await.ok();
            }
            match tag_stopped(server, &task, reason).await {
                Ok(()) => stop.is_tagged = true,
                Err(failure) => {
                    tracing::warn!(task = %id, ?failure, "cannot tag why the task was stopped");
                    stop.is_over = !is_first && !failure.may_be_repeated();
                }
            }
            // It asks for a permission; an interrupt leaves it waiting. Last, because that is the stop: its reason is there
            // when it can be seen.
            if task.execution_status == Execution::WaitingForConfirmation {
                server.respond(id, false, "The task was stopped.").await?;
            }
            if !runs(&task) {
                stopped.left_over = left_over(server, &task).await;
            }
        }
        if stop.is_tagged {
            stop.lock = None;
            stop.is_over = stop.unbegun.is_none() || is_late;
        }
        Ok(stopped)
    }

    /// Takes the lock of a task that has no tag yet.
    async fn hold(&self, stop: &mut Stop) {
        if stop.lock.is_none() && !stop.is_tagged {
            stop.lock = Some(self.locks.lock(stop.id).await);
        }
    }

    /// Ends the commands that a task has left which does not run. `None` if it does, or another call takes long to
    /// change it.
    pub(crate) async fn end_left_over(
        &self,
        server: &AgentServer,
        id: TaskId,
    ) -> ApiResult<Option<LeftOver>> {
        // The end of its deadline takes a moment.
        let Ok(_lock) = timeout(ENDED_GRACE, self.locks.lock(id)).await else {
            return Ok(None);
        };
        let task = server.conversation(id).await?;
        Ok(match task.execution_status {
            Execution::Running => None,
            _ => Some(left_over(server, &task).await),
        })
    }

    /// Stops the tasks that have exceeded their limits.
    async fn tick(self: &Arc<Self>) -> ApiResult<()> {
        // OpenHands enforces its own limits in sandboxes.
        let Backend::Agent(server) = &self.servers.backend().await? else {
            return Ok(());
        };
        let running = self.running(server).await?;
        let now = Instant::now();
        let in_run = running.iter().filter(|task| task.tags.is_in_run());
        let ended: Vec<_> = {
            let mut limited = self.limited.lock();
            limited.extend(in_run.map(|task| (task.id, now)));
            let ended = limited.extract_if(|_, last| now.duration_since(*last) > ENDED_GRACE);
            ended.map(|(id, _)| id).collect()
        };
        for id in ended {
            if !self.end_run(server, id).await.unwrap_or(false) {
                self.watch(id);
            }
        }
        for task in running {
            let (id, tags) = (task.id, &task.tags);
            // Only a limit of several runs needs their number.
            let steps = match tags.steps() {
                Some(_) => server.count_actions(id).await.unwrap_or_default(),
                None => 0,
            };
            let Some(limit) = tags.exceeded(&tags.used(&task, steps, server.now())) else {
                continue;
            };
            // A call that holds it may wait for minutes, and other tasks for this one; the next tick stops it.
            let Some(lock) = self.locks.try_lock(id) else {
                continue;
            };
            // An action that counts already may be one for which it has just begun to ask.
            let now = server.conversation(id).await;
            if !now.is_ok_and(|now| now.execution_status == Execution::Running) {
                continue;
            }
            tracing::info!(task = %id, ?limit, "task stopped, its budget is used up");
            let (runner, server) = (Arc::clone(self), server.clone());
            // The limits of other tasks do not wait for it.
            tokio::spawn(async move {
                let reason = StopReason::Limit(limit);
                if let Err(failure) = runner.stop(&server, id, reason, Some(lock)).await {
                    tracing::warn!(task = %id, ?failure, "cannot stop the task");
                }
            });
        }
        Ok(())
    }

    /// Has the deadline of a run removed after its end, also if the run ends before the next check.
    pub(crate) fn watch(&self, id: TaskId) {
        self.limited.lock().insert(id, Instant::now());
    }

    /// The running tasks. Those of other servers are listed only as often as that takes a part of the time of an agent
    /// server that is slow at it.
    async fn running(&self, server: &AgentServer) -> ApiResult<Vec<Conversation>> {
        if server.count_running().await? == 0 {
            return Ok(Vec::new());
        }
        let known: Vec<TaskId> = self.limited.lock().keys().copied().collect();
        let (began, next) = (Instant::now(), *self.next_list.lock());
        if began >= next {
            let listed = server.running().await;
            *self.next_list.lock() = Instant::now() + began.elapsed() * LIST_PAUSE;
            match listed {
                Ok(listed) => return Ok(listed),
                Err(failure) => tracing::debug!(?failure, "cannot list the running tasks"),
            }
        }
        let mut running = server.conversations_by_id(&known).await?;
        running.retain(|task| task.execution_status == Execution::Running);
        Ok(running)
    }

    /// Removes the deadline of a run that has ended: it must not stop a later run by another client. Returns false if
    /// another call changes the task, or it runs or has just ended.
    async fn end_run(self: &Arc<Self>, server: &AgentServer, id: TaskId) -> ApiResult<bool> {
        let Some(_lock) = self.locks.try_lock(id) else {
            return Ok(false);
        };
        let task = match server.conversation(id).await {
            Err(failure) if failure.is_unknown_task() => return Ok(true),
            task => task?,
        };
        // An agent server that has stalled tells of the end late, and a stop by another process may be about to tag it.
        let ended = Duration::try_from(server.now().duration_since(task.last_event_at()));
        let has_just_ended = ended.unwrap_or_default() < ENDED_GRACE / 2;
        if task.execution_status == Execution::Running || has_just_ended {
            return Ok(false);
        }
        let tags = ConversationTags::from_task(&task);
        let facts = facts(server, &task).await?;
        if facts.goes_on() {
            self.begin_later(id);
            return Ok(true);
        }
        if tags.are_changed() {
            server.set_tags(id, &tags).await?;
        }
        // The agent server has stopped it.
        if facts.is_at_step_limit() {
            left_over(server, &task).await;
        }
        Ok(true)
    }

    /// Runs the agent of a task whose state was `before`. The caller holds its lock and a slot.
    pub(crate) async fn run(
        &self,
        server: &AgentServer,
        id: TaskId,
        tags: &mut ConversationTags,
        before: Execution,
    ) -> ApiResult<()> {
        // Until the agent server records the start, the state is that of the last run.
        let last = server.last_time(id, event_kind::STATE).await?;
        // Tags first, because they cannot be set during a step.
        tags.begin_run(server.now());
        server.set_tags(id, tags).await?;
        self.watch(id);
        let run = match refuse_leftovers(server, id, NOT_ALLOWED).await {
            // It does not stand still, because another client runs it.
            Ok(false) => return Ok(()),
            Ok(true) => server.run(id).await,
            Err(failure) => Err(failure),
        };
        let failure = match run {
            // Another client has begun to run it, whose tags stay.
            Err(failure) if failure.is_conflict() => return Err(failure),
            Err(failure) if !failure.is_ambiguous() => failure,
            run => {
                let begun = wait_for_start(server, id, before, last.as_deref(), RUN_START_TIMEOUT);
                let begun = begun.await;
                match run {
                    Err(failure) if !begun => failure,
                    _ => return Ok(()),
                }
            }
        };
        tags.end_run(server.now());
        server.set_tags(id, tags).await?;
        Err(failure)
    }

    /// Runs a task that was created and has not run, or that goes on after the first limit of its steps. The caller
    /// holds its lock. Returns false if its repository is being fetched, or its prompt is being sent.
    ///
    /// # Errors
    /// All slots are taken, or the agent server does not answer.
    pub(crate) async fn begin(&self, server: &AgentServer, id: TaskId) -> ApiResult<bool> {
        let task = server.conversation(id).await?;
        let mut tags = ConversationTags::from_task(&task);
        let before = task.execution_status;
        let may_begin = match before {
            Execution::Idle => {
                matches!(tags.stop_reason(), None | Some(StopReason::NoSlot))
                    && !server.has_begun_since(id, None).await?
            }
            Execution::Error => facts(server, &task).await?.goes_on(),
            _ => false,
        };
        if !may_begin {
            return Ok(true);
        }
        if server.count_messages(id, "user").await? == 0 {
            return Ok(false);
        }
        // The reason, and what git says about it.
        let mut refused: Option<(StopReason, String)> = None;
        if let Some(fetch) = tags.fetch() {
            match server.finished_script(fetch).await? {
                None if task.age(server.now()) <= REPOSITORY_TIMEOUT => return Ok(false),
                // A restart of the agent server ends the script and leaves no output of it.
                None => refused = Some((StopReason::NoRepository, "it was cut off".to_owned())),
                Some(end) if end.exit_code == Some(0) => {
                    tags.set_fetch(None);
                    tags.set_line(tag::BASE, snapshot_or_reason(&end).as_deref());
                    tags.set_line(tag::GAPS, gaps(end.text()).as_deref());
                    server.set_tags(id, &tags).await?;
                }
                Some(end) => {
                    let said = match end.exit_code {
                        Some(code) if code >= 0 => reason(end.error()),
                        _ => "it took too long".to_owned(),
                    };
                    refused = Some((StopReason::NoRepository, said));
                }
            }
        }
        if let Some(model) = tags.get(tag::MODEL).filter(|_| refused.is_none()) {
            match use_model(server, id, model, tags.has_run()).await {
                Err(failure) if !failure.is_transient() => {
                    tracing::warn!(task = %id, ?failure, "cannot set the model");
                    refused = Some((StopReason::NoModel, String::new()));
                }
                set => set?,
            }
        }
        if let Some((reason, said)) = refused {
            tags.mark_stopped(reason, &said, server.now());
            server.set_tags(id, &tags).await?;
            return Ok(true);
        }
        let _slot = self.take_slot().await?;
        match self.run(server, id, &mut tags, before).await {
            Err(failure) if !failure.is_conflict() => Err(failure),
            _ => Ok(true),
        }
    }

    /// Runs the task in the background as soon as it can begin.
    pub(crate) fn begin_later(self: &Arc<Self>, id: TaskId) {
        if !self.beginning.lock().insert(id) {
            return;
        }
        let runner = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(failure) = runner.begin_in_time(id).await {
                tracing::warn!(task = %id, ?failure, "cannot start the task");
            }
            runner.beginning.lock().remove(&id);
        });
    }

    async fn begin_in_time(&self, id: TaskId) -> ApiResult<()> {
        let server = self.servers.for_task(id).await?;
        let (began, mut full_since) = (Instant::now(), None);
        let mut delays = BEGIN_BACKOFF.delays();
        while began.elapsed() < REPOSITORY_TIMEOUT {
            let lock = self.locks.lock(id).await;
            let begun = self.begin(&server, id).await;
            drop(lock);
            match begun {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(failure) if failure.is_full() => {
                    let since = *full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > SLOT_TIMEOUT {
                        let _lock = self.locks.lock(id).await;
                        let task = server.conversation(id).await?;
                        return tag_stopped(&server, &task, StopReason::NoSlot).await;
                    }
                }
                Err(failure) if failure.is_transient() => {}
                Err(failure) => return Err(failure),
            }
            delays.sleep().await;
        }
        Err(ApiFailure::NoAnswer)
    }
}

/// Repeats an attempt while all slots are taken: once, and then until `until`.
pub(crate) async fn until_slot<T, F>(until: Instant, mut attempt: impl FnMut() -> F) -> ApiResult<T>
where
    F: Future<Output = ApiResult<T>>,
{
    let mut is_first = true;
    loop {
        let done = attempt().await;
        let is_full = matches!(&done, Err(failure) if failure.is_full());
        let is_over = Instant::now() + SLOT_INTERVAL >= until;
        if !is_full || (is_over && !is_first) {
            return done;
        }
        is_first = false;
        sleep(SLOT_INTERVAL).await;
    }
}

/// Tags a stopped task with the reason. The caller holds its lock.
pub(crate) async fn tag_stopped(
    server: &AgentServer,
    task: &Conversation,
    reason: StopReason,
) -> ApiResult<()> {
    let mut tags = ConversationTags::from_task(task);
    tags.mark_stopped(reason, "", server.now());
    server.set_tags(task.id, &tags).await
}

async fn facts(server: &AgentServer, task: &Conversation) -> ApiResult<TaskFacts> {
    let steps = server.count_actions(task.id).await?;
    TaskFacts::read(server, task.clone(), steps).await
}

/// Refuses the actions of a stopped task that have no result: no user has allowed them, or its run was cut off, and the
/// next run would take them. Returns false if the task does not stand still, so that it must not be run.
pub(crate) async fn refuse_leftovers(
    server: &AgentServer,
    id: TaskId,
    reason: &str,
) -> ApiResult<bool> {
    if server.pending_actions(id).await?.is_empty() {
        return Ok(true);
    }
    // Those of an agent at work are being taken, and those of one that asks are answered by its user.
    if !is_stopped(server, id).await? {
        return Ok(false);
    }
    tracing::info!(task = %id, "actions that nobody has allowed are refused");
    server.respond(id, false, reason).await?;
    Ok(server.pending_actions(id).await?.is_empty() && is_stopped(server, id).await?)
}

async fn is_stopped(server: &AgentServer, id: TaskId) -> ApiResult<bool> {
    let execution = server.conversation(id).await?.execution_status;
    Ok(execution.is_stopped())
}

/// Switches a prompted task to its model; the agent server does not count the usage of one that is set before
/// the prompt. A task that has run has its model, so it goes on if the profile of the model is gone.
pub(crate) async fn use_model(
    server: &AgentServer,
    id: TaskId,
    model: &str,
    has_run: bool,
) -> ApiResult<()> {
    match server.use_model(id, model).await {
        Err(failure) if has_run && !failure.is_transient() => {
            tracing::warn!(task = %id, ?failure, "cannot set the model again");
            Ok(())
        }
        set => set,
    }
}

/// Waits until the agent server has recorded the start of a task that was told to run. Its state was `before`, and the
/// last change of it was at `last`. Returns false if there is no start in this time.
pub(crate) async fn wait_for_start(
    server: &AgentServer,
    id: TaskId,
    before: Execution,
    last: Option<&str>,
    time: Duration,
) -> bool {
    let (began, mut delays) = (Instant::now(), START_BACKOFF.delays());
    loop {
        let now = server
            .conversation(id)
            .await
            .map(|task| task.execution_status);
        // A message makes a task idle.
        let has_left = now.is_ok_and(|now| now != before && now != Execution::Idle);
        if has_left || server.has_begun_since(id, last).await.unwrap_or(false) {
            return true;
        }
        let delay = delays.next_delay();
        if began.elapsed() + delay > time {
            return false;
        }
        sleep(delay).await;
    }
}

type Lock = Arc<tokio::sync::Mutex<()>>;
pub(crate) type Guard = OwnedMutexGuard<()>;

/// The tasks that this server is starting or changing, one call each.
#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<TaskId, Lock>>);

impl Locks {
    /// Waits until no other call starts or changes the task.
    pub(crate) async fn lock(&self, id: TaskId) -> Guard {
        let lock = {
            let mut locks = self.0.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id).or_default())
        };
        lock.lock_owned().await
    }

    /// Locks the task, unless a call of this server is starting or changing it.
    pub(crate) fn try_lock(&self, id: TaskId) -> Option<Guard> {
        let lock = Arc::clone(self.0.lock().entry(id).or_default());
        lock.try_lock_owned().ok()
    }
}

/// The slot of a task that starts. It is dropped when the agent server counts the task as running, or when the start
/// has failed.
pub(crate) type Slot = Arc<()>;

/// The slots of the tasks that this server starts just now: clones of the value.
#[derive(Default)]
struct Slots(Mutex<Slot>);

impl Slots {
    fn starting(&self) -> usize {
        Arc::strong_count(&self.0.lock()) - 1
    }

    /// Takes a slot, if fewer than `max` tasks run or start. Of those that started before the `running` ones were
    /// counted (`before`), some may not be among them.
    fn try_take(&self, running: usize, before: usize, max: usize) -> Option<Slot> {
        let slots = self.0.lock();
        let starting = Arc::strong_count(&slots) - 1;
        let is_free = running.saturating_add(before.max(starting)) < max;
        is_free.then(|| Arc::clone(&slots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_that_starts_takes_a_slot() {
        let slots = Slots::default();
        let first = slots.try_take(0, 0, 2).unwrap();
        assert!(slots.try_take(1, 1, 2).is_none());
        let second = slots.try_take(0, 1, 2).unwrap();
        drop((first, second));
        // They had started when the running ones were counted.
        assert!(slots.try_take(0, 2, 2).is_none());
        assert_eq!(slots.starting(), 0);
        assert!(slots.try_take(1, 0, 2).is_some());
    }
}
