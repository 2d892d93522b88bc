//! `get_task_result`

use std::time::Duration;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use tokio::time::Instant;

use crate::OpenHands;
use crate::api::{AgentServer, TaskId};
use crate::task::{MAX_RESULT_BYTES, MAX_WHOLE_RESULT_BYTES, Report, TaskSnapshot};

/// The wait for the verify command.
const CHECK_WAIT: Duration = Duration::from_secs(10);

/// Returns the last message of a task's agent, the output of its last command and the files it
/// changed, also while it is running or after it failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetTaskResult {
    /// From run_task.
    pub(crate) task_id: TaskId,
    /// Default result.
    part: Option<ResultPart>,
    /// Previous next_offset.
    offset: Option<u32>,
    /// For a reader without tokens.
    #[serde(skip)]
    is_resource: bool,
}

/// A text that is returned in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResultPart {
    Result,
    Output,
    Confirmation,
}

impl GetTaskResult {
    /// A call for the content of a resource.
    pub(crate) fn of_resource(task_id: TaskId) -> Self {
        Self {
            task_id,
            part: None,
            offset: None,
            is_resource: true,
        }
    }

    /// The report with one part of one text.
    async fn add_part(
        &self,
        report: &mut Report,
        server: &AgentServer,
        task: &TaskSnapshot,
    ) -> Result<(), ToolError> {
        let offset = self.offset.unwrap_or_default().into();
        let part = self.part.unwrap_or(ResultPart::Result);
        report.confirmation = None;
        if part == ResultPart::Confirmation {
            let pending = task
                .pending
                .as_ref()
                .ok_or_else(|| ToolError::conflict("The task is not waiting for a permission."))?;
            report.confirmation = Some(pending.at_offset(offset));
            return Ok(());
        }
        let output = task.read_output(server).await?;
        let (text, next) = match part {
            ResultPart::Output => output.output_from(offset),
            _ => output.result_from(offset),
        };
        report.next_offset = next;
        match part {
            ResultPart::Output => report.last_output = Some(text),
            _ => report.result = Some(text),
        }
        Ok(())
    }
}

impl Tool for GetTaskResult {
    const NAME: &'static str = "get_task_result";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let id = self.task_id;
        let read = async {
            let server = service.task_server(id, call).await?;
            let task = TaskSnapshot::read(&server, id).await?;
            Ok((server, task))
        };
        let (server, task) = match read.await {
            Ok(read) => read,
            Err(failure) => return Report::from_failure(id, failure),
        };
        let mut report = Report::from_snapshot(&task);
        if self.part.is_some() || self.offset.is_some() {
            self.add_part(&mut report, &server, &task).await?;
            return Ok(report);
        }
        let max_result = match self.is_resource {
            true => MAX_WHOLE_RESULT_BYTES,
            false => MAX_RESULT_BYTES,
        };
        report.add_results(&server, &task, max_result).await?;
        let until = Instant::now() + CHECK_WAIT;
        report.add_check(service, &server, &task, until).await?;
        Ok(report)
    }
}
