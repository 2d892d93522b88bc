//! The methods of tasks: `tasks/get` and `tasks/cancel` of both specifications, `tasks/update` and subscriptions of the
//! extension `io.modelcontextprotocol/tasks`, and `tasks/result` and `tasks/list` of 2025-11-25.
//!
//! A task may have been begun before a restart of the server and go on at its service. The id of such a task names its
//! tool, and what the tool needs to find its work again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream, FuturesUnordered, SelectAll};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::run::{catch_panic, in_task, missing_extension};
use super::task::{RELATED_TASK, Task, TaskOutcome};
use super::{MAX_STORED_BYTES, POLL_INTERVAL, TTL};
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::{Json, Members};
use crate::server::answer::Answer;
use crate::server::context::RequestContext;
use crate::server::params::wrong;
use crate::server::results::conclude;
use crate::server::{Caller, Connection, Server};
use crate::tool::{EarlierTask, ToolError, ToolErrorKind, limited};

/// The most tasks of one subscription: their states must fit into a transport's queue.
const MAX_SUBSCRIBED_TASKS: usize = 50;

/// Tasks of one subscription that are searched at the service, since they may be from before a restart: one
/// after the other, before the subscription is acknowledged.
const MAX_SEARCHED_TASKS: usize = 10;

pub(in crate::server) struct TaskSubscription {
    pub(in crate::server) ids: Vec<String>,
    changes: SelectAll<BoxStream<'static, Arc<Task>>>,
}

/// Characters of an id; a tool that starts 20 pieces of work needs 800.
const MAX_ID_CHARS: usize = 1_000;
/// The digits with which an id begins.
const DIGITS: usize = 32;

impl Server {
    /// The caller's task that the request names.
    async fn task(&self, context: &RequestContext<'_>) -> Result<Arc<Task>, Error> {
        if context.era == Era::Modern && !context.call.supports_tasks() {
            return Err(missing_extension());
        }
        let id = context.params.task_id()?;
        self.find_task(&id, context).await?.ok_or_else(|| {
            wrong(
                "taskId",
                "is not a task of this client, or the task has expired",
            )
        })
    }

    pub(in crate::server) async fn get_task(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let task = self.task(context).await?;
        Ok(match context.era {
            Era::Modern => Json::from(task.detailed()).into(),
            _ => task.legacy().into(),
        })
    }

    pub(in crate::server) async fn cancel_task(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let task = self.task(context).await?;
        let is_cancelled = match task.is_elsewhere {
            true => Box::pin(self.cancel_elsewhere(&task)).await?,
            false => task.cancel(),
        };
        match context.era {
            Era::Modern => Ok(empty()),
            _ if is_cancelled => Ok(task.legacy().into()),
            _ => {
                let reason = "is a task that has already ended and cannot be cancelled";
                Err(wrong("taskId", reason))
            }
        }
    }

    pub(in crate::server) async fn update_task(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "inputResponses")]
            responses: Map<String, Value>,
        }
        let task = self.task(context).await?;
        if task.is_elsewhere && !task.has_ended() {
            let message = "This task runs in another process of the server, which has not got these answers; send \
                them again.";
            return Err(Error::ToolFailed(ToolError::unavailable(message)));
        }
        let Params { responses } = context.parse("inputResponses")?;
        let wrong = |reason: String| wrong("inputResponses", &reason);
        if let Some((key, _)) = responses.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(wrong(format!("{key} must be an object")));
        }
        let size = context.params.text().map_or(0, str::len);
        if !self.tasks.make_room(size) {
            let reason = format!(
                "all tasks together may store at most {MAX_STORED_BYTES} bytes; try again later"
            );
            return Err(wrong(reason));
        }
        for (key, answer) in responses {
            task.answer(&key, Ok(answer));
        }
        Ok(empty())
    }

    /// The caller's task with this id, which may run in another process, or have been begun before a restart.
    ///
    /// # Errors
    /// The service or the store does not say whether there is one.
    async fn find_task(
        &self,
        id: &str,
        context: &RequestContext<'_>,
    ) -> Result<Option<Arc<Task>>, Error> {
        if let Some(known) = self.tasks.find(id, context.caller()) {
            return Ok(Some(known));
        }
        let stored = self.stored_task(id, context.caller()).await?;
        match parse(id) {
            Some((tool, task)) if stored.as_ref().is_none_or(|task| task.has_failed()) => {
                // Boxed: few requests need it.
                let found = Box::pin(self.earlier(id, tool, task, context)).await?;
                Ok(found.or(stored))
            }
            _ => Ok(stored),
        }
    }

    /// Asks the tool for the task, and stores it. The task counts from now on as begun now.
    async fn earlier(
        &self,
        id: &str,
        tool: &str,
        task: EarlierTask<'_>,
        context: &RequestContext<'_>,
    ) -> Result<Option<Arc<Task>>, Error> {
        let catalog = self.catalog_of(context.caller());
        let Some((definition, tool)) = catalog.tool(tool) else {
            return Ok(None);
        };
        let searching = tool.find_task(task, &context.call);
        let found = match self
            .within_limits("the search for the task", context, searching)
            .await
        {
            Ok(found) => found,
            Err(error) if error.kind() == ToolErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let asked = context.client.questions_of(&error);
                return asked.map_or(Err(error.into()), |_| Ok(None));
            }
        };
        let task = Arc::new(Task::new(
            id.to_owned(),
            context.caller(),
            TTL,
            &Map::new(),
            &self.closing,
        ));
        let stored = self.tasks.insert(&task).map_err(Error::ToolFailed)?;
        if !Arc::ptr_eq(&stored, &task) {
            // Another request has found it meanwhile.
            return Ok(Some(stored));
        }
        task.detach();
        // The request that asks for it is not that of the call.
        let call = in_task(&context.call, &task, false);
        let (name, max_bytes) = (definition.name.clone(), definition.max_bytes);
        let (era, client) = (context.era, Arc::clone(&context.client));
        let failures = Arc::clone(&self.failures);
        let work = catch_panic(async move {
            let result = limited(max_bytes, found(call).await);
            if let Err(error) = &result {
                failures.log(&name, error);
            }
            conclude(era, &client, result)
        });
        drop(self.spawn_task(Arc::clone(&task), work));
        Ok(Some(task))
    }

    /// Lists the tasks of a caller, who needs a name.
    pub(in crate::server) async fn list_tasks(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        context.params.check_cursor()?;
        let Some(caller) = context.caller().name() else {
            return Err(Error::TaskSupport(
                "tasks/list needs a session or a token".to_owned(),
            ));
        };
        let tasks = self.tasks.of_caller(caller).into_iter();
        let tasks = tasks.filter(|task| task.view.as_ref() == context.caller().view.as_ref());
        let mut tasks: Vec<Value> = tasks.map(|task| task.legacy()).collect();
        let elsewhere = self.tasks_elsewhere(context.caller()).await?;
        tasks.extend(elsewhere.iter().map(Task::legacy));
        Ok(json!({"tasks": tasks}).into())
    }

    /// Waits for the end of a task and answers with the result of its call. Meanwhile the task asks
    /// its client over this request.
    pub(in crate::server) async fn task_result(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let (call, caller) = (&context.call, context.caller());
        let task = self.task(context).await?;
        self.follow(&task);
        let mut changes = task.changes();
        let mut asked = HashSet::new();
        let mut answers = FuturesUnordered::new();
        let permit = self.tasks.waiting.try_acquire();
        loop {
            let open = {
                let state = changes.borrow_and_update();
                if let Some(end) = &state.outcome {
                    return result(&task, end.clone());
                }
                state.questions.clone()
            };
            if permit.is_err() {
                return Err(Error::RateLimited(POLL_INTERVAL));
            }
            // Without a stream to this caller, the question waits for another request.
            let connection = context.from.connection.as_ref();
            if let Some(connection) = connection.filter(|_| caller.peer.is_some()) {
                let open = open.into_iter();
                let new = open.filter(|(key, _)| asked.insert(key.clone()));
                let ask = |(key, question)| ask(&task, connection, caller, key, question);
                answers.extend(new.map(ask));
            }
            tokio::select! {
                _ = changes.changed() => {}
                Some(()) = answers.next(), if !answers.is_empty() => {}
                // The client does not read the response.
                () = call.cancelled() => return Err(Error::Internal),
                () = caller.disconnected() => return Err(Error::Internal),
            }
        }
    }

    /// Subscribes to those of `ids` that are tasks of the caller.
    pub(in crate::server) async fn subscribe_to_tasks(
        &self,
        ids: &BTreeSet<String>,
        context: &RequestContext<'_>,
    ) -> Result<TaskSubscription, Error> {
        if !ids.is_empty() && !context.call.supports_tasks() {
            return Err(missing_extension());
        }
        let caller = context.caller();
        let is_known = |id: &&String| self.tasks.find(id, caller).is_some();
        let (mut known, others): (Vec<_>, Vec<_>) = ids.iter().partition(is_known);
        known.truncate(MAX_SUBSCRIBED_TASKS);
        let searched = MAX_SEARCHED_TASKS.min(MAX_SUBSCRIBED_TASKS - known.len());
        let mut tasks: Vec<Arc<Task>> = Vec::new();
        for id in known.into_iter().chain(others.into_iter().take(searched)) {
            let found = self.find_task(id, context).await;
            tasks.extend(found.ok().flatten());
        }
        tasks.iter().for_each(|task| self.follow(task));
        Ok(TaskSubscription {
            ids: tasks.iter().map(|task| task.id.clone()).collect(),
            changes: tasks.into_iter().map(changes).collect(),
        })
    }
}

impl TaskSubscription {
    /// The `DetailedTask` of the next task that has changed. At first every task counts as changed: it may have ended
    /// before the subscription.
    pub(in crate::server) async fn next(&mut self) -> String {
        match self.changes.next().await {
            Some(task) => task.detailed(),
            None => std::future::pending().await,
        }
    }
}

/// The changes of a task; ends after the task.
fn changes(task: Arc<Task>) -> BoxStream<'static, Arc<Task>> {
    let mut changes = task.changes();
    changes.mark_changed();
    let next = async |(task, mut changes): (Arc<Task>, tokio::sync::watch::Receiver<_>)| {
        if !changes.has_changed().ok()? && task.has_ended() {
            return None;
        }
        changes.changed().await.ok()?;
        Some((Arc::clone(&task), (task, changes)))
    };
    stream::unfold((task, changes), next).boxed()
}

async fn ask(task: &Task, connection: &Connection, caller: &Caller, key: String, question: Value) {
    let method = question["method"].as_str().unwrap_or_default();
    let mut params = question["params"].clone();
    params["_meta"] = task.related();
    let send = |message| caller.send(message);
    let answer = connection.ask(send, method, &params).await;
    task.answer(&key, answer);
}

/// The result of the call, with the id of its task in its `_meta`, beside what a relayed result has there.
fn result(task: &Arc<Task>, end: TaskOutcome) -> Result<Answer, Error> {
    let (json, is_error) = match end {
        TaskOutcome::Result { json, is_error } => (json, is_error),
        TaskOutcome::Error(error) => return Err(Error::Relayed(Box::new(error))),
        TaskOutcome::Cancelled => {
            let message = "The task was cancelled; it may still take effect.";
            let content = json!([{"type": "text", "text": message}]);
            (json!({"content": content, "isError": true}).into(), true)
        }
    };
    let members = Members::read(json.as_str()).unwrap_or_default();
    let meta = members.get("_meta").and_then(Members::read);
    let mut meta = meta.unwrap_or_default();
    meta.set(RELATED_TASK, &json!({"taskId": task.id}).to_string());
    let json = members.encode_with("_meta", Some(&meta.encode()));
    Ok(Answer::of_tool(Json::from(json), is_error))
}

/// A result without members.
fn empty() -> Answer {
    Json::from("{}".to_owned()).into()
}

/// The parts of an id: the name of the tool, and the task.
fn parse(id: &str) -> Option<(&str, EarlierTask<'_>)> {
    let (digits, rest) = id.split_once('.').filter(|_| id.len() <= MAX_ID_CHARS)?;
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if digits.len() != DIGITS || !digits.chars().all(is_digit) {
        return None;
    }
    let (tool, reference) = rest.split_once('.').unwrap_or((rest, ""));
    Some((tool, EarlierTask { digits, reference }))
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::super::task::id;
    use super::*;

    #[test]
    fn result_names_its_task_beside_the_meta_of_a_relayed_one() {
        let (closing, none) = (CancellationToken::new(), Map::new());
        let task = Task::new("7".to_owned(), &Caller::default(), TTL, &none, &closing);
        let task = Arc::new(task);
        let related = r#""io.modelcontextprotocol/related-task":{"taskId":"7"}"#;
        for (given, expected) in [
            ("{}", format!(r#"{{"_meta":{{{related}}}}}"#)),
            (
                r#"{"_meta":{"x":1.50},"content":[]}"#,
                format!(r#"{{"_meta":{{"x":1.50,{related}}},"content":[]}}"#),
            ),
        ] {
            let (json, is_error) = (Json::from(given.to_owned()), false);
            let answer = result(&task, TaskOutcome::Result { json, is_error });
            let Ok(Answer::Result { json, .. }) = answer else {
                panic!("not a result");
            };
            assert_eq!(json.as_str(), expected);
        }
    }

    #[test]
    fn id_names_the_tool_and_its_work() {
        let digits = "0123456789abcdef".repeat(2);
        for reference in ["", "a-b_1"] {
            let id = id(&digits, "run_task", reference);
            let (tool, task) = parse(&id).unwrap();
            assert_eq!(
                (tool, task.digits, task.reference),
                ("run_task", &*digits, reference)
            );
        }
        let long = "x".repeat(MAX_ID_CHARS);
        for other in [
            &digits,
            "1.run_task",
            &format!("{}.x", digits.to_uppercase()),
        ] {
            assert!(parse(other).is_none(), "{other}");
        }
        assert!(parse(&id(&digits, "run_task", &long)).is_none());
    }
}
