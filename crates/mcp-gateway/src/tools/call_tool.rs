//! `call_tool`: calls a tool that `search_tools` has found.

use gateway_access::CALL_TOOL;
use mcp_core::server::OriginalRequest;
use mcp_core::tool::{Call, Effect, ShortText, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gateway::Gateway;

/// Call a tool found by search_tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallTool {
    /// Its name.
    name: ShortText<128>,
    /// Its arguments, by its inputSchema.
    #[serde(default = "no_arguments")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    arguments: Box<RawValue>,
}

fn no_arguments() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

impl Tool for CallTool {
    const NAME: &'static str = CALL_TOOL;
    const EFFECT: Effect = Effect::Destructive;
    type Service = Gateway;
    type Output = ToolResult;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<ToolResult, ToolError> {
        if !self.arguments.get().starts_with('{') {
            return Err(ToolError::invalid_argument("arguments must be an object."));
        }
        let catalog = gateway.catalog();
        let viewer = gateway.viewer(call);
        let scope = catalog.scope(viewer.view());
        let found = scope.and_then(|scope| scope.tool(&self.name));
        let Some((definition, tool)) = found.filter(|(tool, _)| viewer.allows(tool)) else {
            let denial = scope.and_then(|scope| scope.denial(&self.name, &viewer));
            if let (Some(denial), Some(origin)) = (denial, call.extension::<OriginalRequest>()) {
                origin.notes.set_denial(denial);
            }
            let may_call = viewer.allows_missing(&self.name);
            let missing = may_call.then(|| gateway.why_missing(&self.name, viewer.view()));
            return Err(missing.flatten().unwrap_or_else(|| {
                ToolError::not_found(format!(
                    "There is no tool {:?}; find tools with search_tools.",
                    &*self.name
                ))
            }));
        };
        if let Some(admission) = gateway.admission() {
            admission.judge(definition, &self.arguments, call)?;
        }
        let running = tool.start(&self.arguments, call).map_err(|error| {
            ToolError::invalid_argument(format!("{}: {}", error.field, error.reason))
        })?;
        running.await
    }
}
