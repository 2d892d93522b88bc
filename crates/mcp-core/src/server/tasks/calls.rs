//! Which calls become tasks, and how.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, json};

use super::client::TaskClient;
use super::lifecycle::{Work, guarded, live};
use super::task::Task;
use super::{EXTENSION, MAX_TTL, MIN_TTL, TTL};
use crate::era::Era;
use crate::error::Error;
use crate::revision::Revision;
use crate::server::Server;
use crate::server::context::{Context, end};
use crate::server::limits::CLEAN_UP;
use crate::server::modern_client::ModernClient;
use crate::server::outcome::{MethodResult, Outcome, ResultKind};
use crate::server::params::wrong;
use crate::server::tool_result::{bad_argument, bad_arguments, conclude, log_failure};
use crate::tool::{BoundTool, Call, TaskSupport, ToolDefinition};

/// How a call is to be answered.
pub(in crate::server) enum Mode {
    /// With its result.
    Inline,
    /// With a task that is kept this long.
    Task(Duration),
    /// With whichever of the two the call turns out to want.
    Late,
}

impl Server {
    /// Decides by what the tool declares and the client knows. In the modern era the server decides
    /// and the client has to have declared the extension; in 2025-11-25 the client asks for a task.
    pub(in crate::server) fn mode(
        &self,
        definition: &ToolDefinition,
        context: &Context<'_>,
    ) -> Result<Mode, Error> {
        let (era, call) = (context.era, &context.call);
        let refused = |words| Err(Error::TaskSupport(format!("{} {words}", definition.name)));
        let asked = match era {
            Era::Legacy(_) if self.has_tasks(era) => context.params.task,
            _ => None,
        };
        match (definition.task, asked) {
            (TaskSupport::Never, None) => Ok(Mode::Inline),
            (TaskSupport::Never, Some(_)) => refused("does not run as a task"),
            (_, Some(task)) => Ok(Mode::Task(ttl(task)?)),
            (TaskSupport::Late, None) if era == Era::Modern && call.supports_tasks() => {
                Ok(Mode::Late)
            }
            (TaskSupport::Late, None) => Ok(Mode::Inline),
            (_, None) if era == Era::Modern && call.supports_tasks() => Ok(Mode::Task(TTL)),
            (TaskSupport::Optional, None) => Ok(Mode::Inline),
            (TaskSupport::Required, None) if era == Era::Modern => Err(undeclared()),
            (TaskSupport::Required, None) => refused("runs only as a task"),
        }
    }

    /// True if some tool may run as a task, in an era that has them.
    pub(in crate::server) fn has_tasks(&self, era: Era) -> bool {
        let knows = matches!(era, Era::Modern | Era::Legacy(Revision::V2025_11_25));
        knows && self.catalog().tools.has_tasks()
    }

    /// Starts the call. In the modern era it is a task only if something has to be waited for: what
    /// is done at once is answered at once, and what the tool asks before it waits for anything is
    /// asked before there is a task.
    pub(in crate::server) fn call_as_task(
        &self,
        tool: &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        ttl: Duration,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        let era = context.era;
        let task = self.new_task(ttl, context)?;
        // In the modern era it has no way to its caller but the task.
        let call = in_task(&context.call, &task, era != Era::Modern);
        let mut work = work(tool, arguments, call, context);
        if era == Era::Modern
            && let Some(outcome) = (&mut work).now_or_never()
        {
            self.tasks.forget(&task.id);
            return outcome;
        }
        Ok(self.detached(task, work, era).into())
    }

    /// Starts the call and answers with its result, unless the call wants to go on as a task.
    pub(in crate::server) async fn call_until_task(
        &self,
        tool: &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        let call = &context.call;
        let task = self.new_task(TTL, context)?;
        let unborn = UnpublishedTask {
            server: self,
            task: &task,
        };
        let mut work = work(tool, arguments, in_task(call, &task, true), context);
        let outcome = tokio::select! {
            biased;
            outcome = &mut work => outcome,
            () = task.wants_out() => {
                std::mem::forget(unborn);
                return Ok(self.detached(Arc::clone(&task), work, Era::Modern).into());
            }
            () = self.over(call) => {
                task.stop.cancel();
                // It says itself that it was given up, if it is quick.
                tokio::select! {
                    outcome = &mut work => outcome,
                    () = self.clock.sleep(CLEAN_UP) => Err(Error::Internal),
                }
            }
        };
        drop(unborn);
        outcome
    }

    fn new_task(&self, ttl: Duration, context: &Context<'_>) -> Result<Arc<Task>, Error> {
        let random = (self.settings.random)().ok_or(Error::Internal)?;
        let round = context.client.as_deref().and_then(ModernClient::round);
        let none = Map::new();
        let task = Arc::new(Task::new(
            format!("{random:032x}"),
            context.caller.name().cloned(),
            ttl,
            round.map_or(&none, |round| &round.answers),
            &self.closing,
            Arc::clone(&self.clock),
        ));
        self.tasks.keep(&task).map_err(Error::ToolFailed)?;
        Ok(task)
    }

    /// Lets `work` go on by itself, and answers with its task.
    fn detached(&self, task: Arc<Task>, work: Work, era: Era) -> MethodResult {
        task.detach();
        let created = if era == Era::Modern {
            task.created_modern()
        } else {
            json!({"task": task.handshake()}).into()
        };
        let life = live(Arc::clone(&self.tasks), task, work, Arc::clone(&self.clock));
        (self.settings.spawn)(Box::pin(life));
        MethodResult {
            kind: ResultKind::Task,
            ..created.into()
        }
    }

    /// Completes when nobody waits for the call any longer.
    async fn over(&self, call: &Call) {
        tokio::select! {
            () = call.cancelled() => {}
            () = self.out_of_time(call) => {}
        }
    }
}

/// A task that nobody was told of, and that is forgotten with its request.
struct UnpublishedTask<'a> {
    server: &'a Server,
    task: &'a Task,
}

impl Drop for UnpublishedTask<'_> {
    fn drop(&mut self) {
        self.task.stop.cancel();
        self.server.tasks.forget(&self.task.id);
    }
}

/// `call` as `task` goes on with it: for as long as the task is wanted, not the request.
fn in_task(call: &Call, task: &Arc<Task>, keeps_peer: bool) -> Call {
    call.with_client(task.token(), |client| {
        Arc::new(TaskClient::new(task, client, keeps_peer))
    })
}

fn work(
    (definition, tool): &(ToolDefinition, Arc<dyn BoundTool>),
    arguments: &RawValue,
    call: Call,
    context: &Context<'_>,
) -> Work {
    let (definition, tool) = (definition.clone(), Arc::clone(tool));
    let arguments = arguments.to_owned();
    let (era, client) = (context.era, context.client.clone());
    guarded(async move {
        let result = match tool.start(&arguments, &call) {
            Ok(running) => running.await,
            Err(error) => {
                let bad = bad_argument(&definition, error);
                return bad_arguments(&definition.name, era, bad);
            }
        };
        if let Err(error) = &result {
            log_failure(&definition.name, error);
        }
        conclude(era, end(client.as_deref(), result))
    })
}

/// The time that the client asks for, within what we give.
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

/// The client has not said that it knows tasks.
pub(super) fn undeclared() -> Error {
    Error::MissingCapability(Box::new(json!({"extensions": {EXTENSION: {}}})))
}
