//! `tasks/get`, `tasks/update` and `tasks/cancel` of the extension `io.modelcontextprotocol/tasks`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::{Outcome, Server};
use super::calls::undeclared;
use super::{MAX_BYTES, Task};
use crate::error::{BadParam, Error};
use crate::jsonrpc::Json;
use crate::tool::Call;

impl Server {
    /// One of the three methods. The results are to be told that they are complete.
    pub(in crate::server) fn task_method(
        &self,
        method: &str,
        params: Option<&RawValue>,
        call: &Call,
    ) -> Result<Outcome, Error> {
        if !call.knows_tasks() {
            return Err(undeclared());
        }
        let task = self.task(params, call)?;
        let result = match method {
            "tasks/get" => format!("{{{}}}", task.detailed()),
            "tasks/update" => {
                self.update(&task, params)?;
                "{}".to_owned()
            }
            _ => {
                task.cancel();
                "{}".to_owned()
            }
        };
        Ok(Json::Owned(result).into())
    }

    /// The caller's task that `params` names.
    pub(super) fn task(&self, params: Option<&RawValue>, call: &Call) -> Result<Arc<Task>, Error> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "taskId")]
            task_id: Option<Value>,
        }
        let wrong = |reason| Error::InvalidParams(BadParam::new("taskId", reason));
        let params = params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
        let id = match params.and_then(|params| params.task_id) {
            Some(Value::String(id)) => id,
            Some(_) => return Err(wrong("must be a string")),
            None => return Err(wrong("Required field missing")),
        };
        let found = self.tasks.find(&id, call.caller().map(|caller| &**caller));
        found.ok_or_else(|| wrong("names no task of yours, or one that has expired"))
    }

    fn update(&self, task: &Task, params: Option<&RawValue>) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "inputResponses")]
            responses: Map<String, Value>,
        }
        let wrong = |reason: String| Error::InvalidParams(BadParam::new("inputResponses", reason));
        let params = params.map_or("{}", RawValue::get);
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
        Ok(())
    }
}
