//! `tasks/get` and `tasks/cancel` of both specifications, and `tasks/update` of the extension
//! `io.modelcontextprotocol/tasks`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::MAX_STORED_BYTES;
use super::calls::missing_extension;
use super::task::Task;
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::Server;
use crate::server::context::Context;
use crate::server::outcome::Outcome;
use crate::server::params::wrong;
use crate::tool::ToolError;

impl Server {
    /// The caller's task that the request names.
    pub(super) async fn task(&self, context: &Context<'_>) -> Result<Arc<Task>, Error> {
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
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
        let task = self.task(context).await?;
        Ok(match context.era {
            Era::Modern => Json::Owned(format!("{{{}}}", task.detailed())).into(),
            _ => task.legacy().into(),
        })
    }

    pub(in crate::server) async fn cancel_task(
        &self,
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
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
        context: &Context<'_>,
    ) -> Result<Outcome, Error> {
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
}

/// A result without members.
fn empty() -> Outcome {
    Json::Owned("{}".to_owned()).into()
}
