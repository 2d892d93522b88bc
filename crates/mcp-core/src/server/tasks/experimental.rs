//! `tasks/result` and `tasks/list` of 2025-11-25.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::POLL_INTERVAL;
use super::outcome::TaskOutcome;
use super::task::Task;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::context::Context;
use crate::server::outcome::{MethodResult, Outcome};
use crate::server::{Caller, Connection, Server};

impl Server {
    /// Lists the tasks of a caller, who needs a name.
    pub(in crate::server) async fn list_tasks(
        &self,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        context.params.check_cursor()?;
        let Some(caller) = context.caller.name() else {
            return Err(Error::TaskSupport(
                "tasks/list needs a session or a token".to_owned(),
            ));
        };
        let tasks = self.tasks.owned_by(caller).into_iter();
        let tasks = tasks.filter(|task| task.view.as_ref() == context.caller.view());
        let mut tasks: Vec<Value> = tasks.map(|task| task.legacy()).collect();
        let elsewhere = self.tasks_elsewhere(context.caller).await?;
        tasks.extend(elsewhere.iter().map(Task::legacy));
        Ok(json!({"tasks": tasks}).into())
    }

    /// Waits for the end of a task and answers with the result of its call. Meanwhile the task asks
    /// its client over this request.
    pub(in crate::server) async fn task_result(
        &self,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        let Context { call, caller, .. } = context;
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
            if let Some(connection) = context.connection.filter(|_| caller.has_peer()) {
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
}

async fn ask(task: &Task, connection: &Connection, caller: &Caller, key: String, question: Value) {
    let method = question["method"].as_str().unwrap_or_default();
    let mut params = question["params"].clone();
    params["_meta"] = task.related();
    let send = |message| caller.send(message);
    let answer = connection.ask(send, method, &params).await;
    task.answer(&key, answer);
}

/// The result of the call, with the id of its task in `_meta`.
fn result(task: &Arc<Task>, end: TaskOutcome) -> Result<Outcome, Error> {
    let (json, is_error) = match end {
        TaskOutcome::Result { json, is_error } => (json, is_error),
        TaskOutcome::Error(error) => return Err(Error::OfTask(error)),
        TaskOutcome::Cancelled => {
            let message = "The task was cancelled; it may still take effect.";
            let content = json!([{"type": "text", "text": message}]);
            (json!({"content": content, "isError": true}).into(), true)
        }
    };
    let members = json.as_str().trim_end().strip_suffix('}').unwrap_or("{");
    let is_empty = members.trim_end().ends_with('{');
    let comma = if is_empty { "" } else { "," };
    let json = Json::Owned(format!(r#"{members}{comma}"_meta":{}}}"#, task.related()));
    Ok(Outcome::Done(MethodResult {
        is_error,
        ..json.into()
    }))
}
