//! `tasks/get`, `tasks/update` and `tasks/cancel`: of the extension
//! `io.modelcontextprotocol/tasks`, and of 2025-11-25, which has two of them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::MAX_BYTES;
use super::calls::undeclared;
use super::task::Task;
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::Server;
use crate::server::context::Context;
use crate::server::outcome::Outcome;
use crate::server::params::wrong;

impl Server {
    /// The caller's task that the request names.
    pub(super) fn task(&self, context: &Context<'_>) -> Result<Arc<Task>, Error> {
        if context.era == Era::Modern && !context.call.supports_tasks() {
            return Err(undeclared());
        }
        let id = context.params.task_id()?;
        let caller = context.caller.name().map(|name| &**name);
        let found = self.tasks.find(&id, caller);
        found.ok_or_else(|| wrong("taskId", "names no task of yours, or one that has expired"))
    }

    pub(in crate::server) fn get_task(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let task = self.task(context)?;
        Ok(match context.era {
            Era::Modern => Json::Owned(format!("{{{}}}", task.detailed())).into(),
            _ => task.handshake().into(),
        })
    }

    pub(in crate::server) fn cancel_task(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let task = self.task(context)?;
        let is_news = task.cancel();
        match context.era {
            Era::Modern => Ok(nothing()),
            _ if is_news => Ok(task.handshake().into()),
            _ => {
                let reason = "names a task that has ended, so that it cannot be cancelled";
                Err(wrong("taskId", reason))
            }
        }
    }

    pub(in crate::server) fn update_task(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "inputResponses")]
            responses: Map<String, Value>,
        }
        let task = self.task(context)?;
        let wrong = |reason: String| wrong("inputResponses", &reason);
        let params = context.raw.map_or("{}", RawValue::get);
        let Params { responses } =
            serde_json::from_str(params).map_err(|error| wrong(error.to_string()))?;
        if let Some((key, _)) = responses.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(wrong(format!("{key} must be an object")));
        }
        if !self.tasks.make_room(params.len()) {
            return Err(wrong(format!("all tasks together keep {MAX_BYTES} bytes")));
        }
        for (key, answer) in responses {
            task.answer(&key, Ok(answer));
        }
        Ok(nothing())
    }
}

/// A result without members.
fn nothing() -> Outcome {
    Json::Owned("{}".to_owned()).into()
}
