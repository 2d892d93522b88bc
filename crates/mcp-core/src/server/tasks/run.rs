//! Calls that become tasks, and their work in the background until they expire.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::time::sleep;

use super::store::{TaskStore, save};
use super::task::{Task, TaskClient, TaskOutcome, id};
use super::{EXTENSION, MAX_TTL, MIN_TTL, TTL, Tasks};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::revision::Revision;
use crate::server::answer::Answer;
use crate::server::context::RequestContext;
use crate::server::limits::CLEANUP_GRACE;
use crate::server::params::wrong;
use crate::server::results::{bad_arguments, conclude, with_schema};
use crate::server::{OnDrop, Server};
use crate::tool::{BoundTool, Call, TaskSupport, ToolDefinition, limited};
use crate::trace;

/// The time that a client has at least to get a result.
const TIME_TO_GET_RESULT: Duration = Duration::from_secs(60);

/// The way to answer a call.
pub(in crate::server) enum Mode {
    /// With its result.
    Inline,
    /// With a task of this lifetime.
    Task(Duration),
    /// With its result, or with a task if the call asks for one.
    LateTask,
}

impl Server {
    /// Decides by the task support of the tool and the client. In the modern era the server decides,
    /// if the client has declared the extension; in 2025-11-25 the client asks for a task.
    pub(in crate::server) fn mode(
        &self,
        definition: &ToolDefinition,
        context: &RequestContext<'_>,
    ) -> Result<Mode, Error> {
        let era = context.era;
        let supports_tasks = era == Era::Modern && context.call.supports_tasks();
        let refused = |words| Err(Error::TaskSupport(format!("{} {words}", definition.name)));
        let asked = match era {
            Era::Legacy(_) if self.has_tasks(era) => context.params.task,
            _ => None,
        };
        match (definition.task, asked) {
            (TaskSupport::Never, None) => Ok(Mode::Inline),
            (TaskSupport::Never, Some(_)) => refused("does not run as a task"),
            (_, Some(task)) => Ok(Mode::Task(ttl(task)?)),
            (TaskSupport::Late, None) if supports_tasks => Ok(Mode::LateTask),
            (_, None) if supports_tasks => Ok(Mode::Task(TTL)),
            (TaskSupport::Late | TaskSupport::Optional, None) => Ok(Mode::Inline),
            (TaskSupport::Required, None) if era == Era::Modern => Err(missing_extension()),
            (TaskSupport::Required, None) => refused("runs only as a task"),
        }
    }

    /// True if some tool may run as a task, in an era that has them.
    pub(in crate::server) fn has_tasks(&self, era: Era) -> bool {
        let knows = matches!(era, Era::Modern | Era::Legacy(Revision::V2025_11_25));
        knows && self.catalog().has_tasks
    }

    /// Starts the call. In the modern era it becomes a task only if it has to wait: a result without
    /// waiting is the response, and so are questions that the tool asks before it waits.
    pub(in crate::server) async fn call_as_task(
        &self,
        tool: &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        ttl: Duration,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let era = context.era;
        let task = self.new_task(tool, arguments, ttl, context)?;
        // In the modern era only the task reaches the client.
        let call = in_task(&context.call, &task, era != Era::Modern);
        let mut work = self.work(tool, arguments, call, context);
        if era == Era::Modern
            && let Some(outcome) = (&mut work).now_or_never()
        {
            self.tasks.remove(&task);
            return outcome;
        }
        if self.features.relays {
            // The call goes on after its request, and records its end itself.
            context.record.leave_audit();
        }
        Ok(self.detached(task, work, era).await)
    }

    /// Starts the call and answers with its result, unless the call asks to continue as a task.
    pub(in crate::server) async fn call_until_task(
        &self,
        tool: &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let call = &context.call;
        let task = self.new_task(tool, arguments, TTL, context)?;
        // No client knows the task yet, so it ends with its request.
        let unpublished = OnDrop(|| {
            task.stop.cancel();
            self.tasks.remove(&task);
        });
        let in_task = in_task(call, &task, true);
        let mut work = self.work(tool, arguments, in_task, context);
        let outcome = tokio::select! {
            biased;
            outcome = &mut work => Some(outcome),
            () = task.detach_requested() => {
                // The client can still get the result of a call that takes all the time that it has asked for.
                let extra = call.extra_time();
                if !extra.is_zero() {
                    task.live_at_least(self.settings.call_timeout + extra + TIME_TO_GET_RESULT);
                }
                std::mem::forget(unpublished);
                let created = self.detached(Arc::clone(&task), work, Era::Modern);
                return Ok(created.await);
            }
            () = call.cancelled() => None,
            () = self.timed_out(call) => None,
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
        task.stop.cancel();
        // The tool's own error explains the cancellation, if it comes in time.
        tokio::select! {
            outcome = work => outcome,
            () = sleep(CLEANUP_GRACE) => Err(Error::Internal),
        }
    }

    fn new_task(
        &self,
        (definition, tool): &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        ttl: Duration,
        context: &RequestContext<'_>,
    ) -> Result<Arc<Task>, Error> {
        let random = (self.settings.random)().ok_or(Error::Internal)?;
        let digits = format!("{random:032x}");
        let task_id = match tool.task_reference(arguments, &context.call) {
            Some(reference) => id(&digits, &definition.name, &reference),
            None => digits,
        };
        let round = context.client.round();
        let none = Map::new();
        let task = Arc::new(Task::new(
            task_id,
            context.caller(),
            ttl,
            round.map_or(&none, |round| &round.answers),
            &self.closing,
        ));
        self.tasks.insert(&task).map_err(Error::ToolFailed)?;
        Ok(task)
    }

    /// Runs `work` in the background, and answers with its task once other processes can find it.
    async fn detached(&self, task: Arc<Task>, work: Work, era: Era) -> Answer {
        task.detach();
        let created: Json = match era {
            Era::Modern => task.created_modern(),
            _ => json!({"task": task.legacy()}).into(),
        };
        self.spawn_task(task, work).await;
        Answer::Task(created)
    }

    /// Runs `work` until it ends or its task expires. The result completes once other processes can find the
    /// task, and need not be awaited.
    pub(super) fn spawn_task(
        &self,
        task: Arc<Task>,
        work: Work,
    ) -> OptionFuture<BoxFuture<'static, ()>> {
        let saved = self.save_task(&task);
        let tasks = Arc::clone(&self.tasks);
        let running = run(tasks, task, work, self.features.task_store.clone());
        tokio::spawn(running);
        saved
    }

    fn work(
        &self,
        (definition, tool): &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        call: Call,
        context: &RequestContext<'_>,
    ) -> Work {
        let (definition, tool) = (definition.clone(), Arc::clone(tool));
        let failures = Arc::clone(&self.failures);
        let arguments = arguments.to_owned();
        let (era, client) = (context.era, Arc::clone(&context.client));
        let trace = trace::current();
        let running = async move {
            let result = match tool.start(&arguments, &call) {
                Ok(running) => limited(definition.max_bytes, running.await),
                Err(error) => {
                    let bad = with_schema(&definition, error);
                    return bad_arguments(&definition.name, era, bad);
                }
            };
            if let Err(error) = &result {
                failures.log(&definition.name, error);
            }
            conclude(era, &client, result)
        };
        // The task may go on when its request has ended.
        catch_panic(async move { trace::within(trace, pin!(running)).await })
    }
}

/// Returns the call with the cancellation and the client of `task` instead of the request's.
pub(super) fn in_task(call: &Call, task: &Arc<Task>, keeps_peer: bool) -> Call {
    call.with_client(task.stop.clone(), |client| {
        Arc::new(TaskClient::new(task, client, keeps_peer))
    })
}

/// The lifetime that the client asks for, within our bounds.
fn ttl(task: &RawValue) -> Result<Duration, Error> {
    #[derive(Deserialize)]
    struct TaskMetadata {
        ttl: Option<u64>,
    }
    if !task.get().starts_with('{') {
        return Err(wrong("task", "must be an object"));
    }
    let task: TaskMetadata = serde_json::from_str(task.get())
        .map_err(|error| wrong("task", &format!("ttl: {error}")))?;
    let ttl = task.ttl.map_or(TTL, Duration::from_millis);
    Ok(ttl.clamp(MIN_TTL, MAX_TTL))
}

/// The error for a client that has not declared the extension.
pub(super) fn missing_extension() -> Error {
    Error::MissingCapability(Box::new(json!({"extensions": {EXTENSION: {}}})))
}

/// The work of a call, with its outcome.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

/// Boxes `work`. A panic of the tool becomes an internal error.
pub(super) fn catch_panic(
    work: impl Future<Output = Result<Answer, Error>> + Send + 'static,
) -> Work {
    let caught = AssertUnwindSafe(work).catch_unwind();
    Box::pin(caught.map(|outcome| {
        outcome.unwrap_or_else(|_| {
            tracing::error!("a tool panicked in its task");
            Err(Error::Internal)
        })
    }))
}

/// Runs the work until it ends, is cancelled or expires, and stores the outcome until the task
/// expires.
pub(super) async fn run(
    tasks: Arc<Tasks>,
    task: Arc<Task>,
    mut work: Work,
    store: Option<Arc<dyn TaskStore>>,
) {
    let store = store.as_ref();
    let mut expiry = pin!(sleep(task.ttl()));
    let cancelled_elsewhere: OptionFuture<_> = store.map(|store| store.cancelled(&task.id)).into();
    let has_ended = tokio::select! {
        biased;
        outcome = &mut work => {
            task.end(TaskOutcome::from_answer(outcome));
            tasks.make_room(0);
            true
        }
        () = task.stop.cancelled() => false,
        Some(()) = cancelled_elsewhere => false,
        // Not of a call whose request still waits for its result.
        () = task.closing.cancelled() => {
            if store.is_some() {
                // For those that ask another process.
                task.end(TaskOutcome::lost());
            }
            false
        }
        () = &mut expiry => {
            task.end(TaskOutcome::expired());
            tasks.remove(&task);
            false
        }
    };
    if !has_ended {
        // The tool may still clean up; its result is ignored.
        task.cancel();
        tokio::select! {
            _ = work => {}
            () = sleep(CLEANUP_GRACE) => {}
        }
    }
    drop(save(store, &task));
    if !expiry.is_elapsed() {
        tokio::select! {
            () = expiry => {}
            () = task.removed.cancelled() => return,
        }
    }
    tasks.remove(&task);
}
