//! `run_task`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{Context, Patience, Terms, Wait, directory};
use super::asking;
use crate::OpenHands;
use crate::order::{Confirm, Order};
use crate::report::Report;

/// Hands a coding task to an OpenHands agent, which works on it with a shell and an editor. Returns
/// the result if it is done in time, otherwise status running or queued and the task_id for wait_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTask {
    /// What to do, in words; the agent sees nothing else of this conversation.
    task: String,
    /// What the agent works on.
    context: Option<Context>,
    /// Directory to work in, such as my-project; default a new one.
    workspace: Option<String>,
    /// How long to wait for the end; default 20.
    wait_seconds: Option<Wait>,
    /// Any text: the same key never starts the task twice, so a lost call can be repeated.
    idempotency_key: Option<String>,
    /// Steps after which it is stopped.
    max_iterations: Option<Bounded<1, 100_000>>,
    /// Seconds after which it is stopped.
    max_seconds: Option<Bounded<1, 604_800>>,
    /// US dollars after which it is stopped.
    max_cost: Option<f64>,
    /// Which actions need respond_confirmation; default none.
    confirm: Option<Confirm>,
    /// Agent profile; default the active one.
    agent: Option<String>,
}

impl Tool for RunTask {
    const NAME: &'static str = "run_task";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Report;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Report, ToolError> {
        let patience = Patience::of(self.wait_seconds);
        let order = self.order(patience)?;
        // Where a call ends to ask and is repeated with the answer, only a key finds its task again.
        let may_ask = call.waits_for_answers() || order.key.is_some();
        let id = service.start(order).await?;
        if may_ask {
            return asking::follow(service, id, patience, call).await;
        }
        let seen = service.follow(id, patience.until, call).await?;
        Ok(service.report(id, seen, patience.answer_by).await)
    }
}

impl RunTask {
    fn order(self, patience: Patience) -> Result<Order, ToolError> {
        let mut order = Order::new(self.task, patience.answer_by);
        order.workspace = directory(self.workspace.as_deref())?;
        order.key = self.idempotency_key;
        if let Some(context) = self.context {
            context.apply(&mut order)?;
        }
        let terms = Terms {
            agent: self.agent,
            max_iterations: self.max_iterations,
            max_seconds: self.max_seconds,
            max_cost: self.max_cost,
            confirm: self.confirm,
        };
        terms.apply(&mut order)?;
        order.checked()
    }
}
