//! `gateway_restart`: what to do about a crash loop.

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::Gateway;

/// Start a backend anew: after crash_loop, or when it hangs. Its calls under way fail.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayRestart {
    /// Its name, as gateway_status shows it.
    backend: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Restarted {
    backend: String,
    /// What it was before.
    before: &'static str,
    /// What to do next.
    note: &'static str,
}

impl Tool for GatewayRestart {
    const NAME: &'static str = "gateway_restart";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Gateway;
    type Output = Restarted;

    async fn call(self, gateway: &Gateway, _: &Call) -> Result<Restarted, ToolError> {
        let backends = gateway.backends();
        let found = backends
            .values()
            .find(|backend| backend.key.as_str() == self.backend);
        let Some(backend) = found else {
            let names: Vec<&str> = backends.keys().map(|key| key.as_str()).collect();
            return Err(ToolError::not_found(format!(
                "There is no backend {:?}; there are: {}.",
                self.backend,
                names.join(", ")
            )));
        };
        let before = backend.status().state.name();
        backend.restart();
        Ok(Restarted {
            backend: self.backend,
            before,
            note: "It is being started; gateway_status shows how it is.",
        })
    }
}
