//! `tools/call` of every era.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Server;
use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use super::tasks::calls::Mode;
use super::tool_result::{bad_arguments, conclude, with_schema};
use crate::error::Error;
use crate::tool::{ArgumentError, BoundTool, ToolDefinition, ToolResult};

impl Server {
    pub(super) async fn call_tool(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let (name, arguments) = context.params.named_call()?;
        let catalog = self.catalog_of(context.caller);
        let Some((tool, counted_as)) = catalog.find_tool(&name) else {
            if let Some(error) = catalog.why_missing(&name) {
                context.operation.failed(error.kind().as_str());
                return conclude(
                    context.era,
                    context.call.capabilities(),
                    CallEnd::Failed(error),
                );
            }
            return Err(Error::ToolNotFound {
                name: name.into_owned(),
                available: catalog.tool_names(),
            });
        };
        context.operation.calls(counted_as);
        if let Err(refusal) = catalog.admit(&tool.0, arguments, &context.call) {
            context.operation.failed(refusal.kind().as_str());
            let end = CallEnd::Failed(refusal);
            return conclude(context.era, context.call.capabilities(), end);
        }
        match self.mode(&tool.0, context)? {
            Mode::Inline => match self.run(tool, arguments, context).await {
                Ok(end) => conclude(context.era, context.call.capabilities(), end),
                Err(bad) => {
                    context.operation.failed("invalid_params");
                    bad_arguments(&name, context.era, bad)
                }
            },
            Mode::Task(ttl) => Box::pin(self.call_as_task(tool, arguments, ttl, context)).await,
            // Boxed, to keep the future of other calls small.
            Mode::LateTask => Box::pin(self.call_until_task(tool, arguments, context)).await,
        }
    }

    /// Runs a tool while its request waits.
    ///
    /// # Errors
    /// Invalid arguments; nothing was started.
    pub(super) async fn run(
        &self,
        (definition, tool): &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        context: &Context<'_>,
    ) -> Result<CallEnd<ToolResult>, ArgumentError> {
        let running = tool
            .start(arguments, &context.call)
            .map_err(|error| with_schema(definition, error))?;
        Ok(self.within_limits(&definition.name, context, running).await)
    }
}
