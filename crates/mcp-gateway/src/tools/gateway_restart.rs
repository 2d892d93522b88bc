//! `gateway_restart`: starts a backend again, for example after a crash loop.

use gateway_approvals::approvals::GuardedCall;
use mcp_core::server::OriginalRequest;
use mcp_core::suggestion::suggestion;
use mcp_core::tool::{Call, Effect, ShortText, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::backend::BackendState;
use crate::gateway::{Gateway, not_used};

/// Restart a backend after crash_loop or when it hangs. Its running calls fail.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayRestart {
    /// Its name in gateway_status.
    backend: ShortText<128>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Restarted {
    backend: String,
    /// Its old status.
    #[schemars(with = "String")]
    before: BackendState,
    /// The next step.
    note: &'static str,
}

impl Tool for GatewayRestart {
    const NAME: &'static str = "gateway_restart";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Gateway;
    type Output = Restarted;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<Restarted, ToolError> {
        let viewer = gateway.viewer(call);
        let mut backends = gateway.backends();
        backends.retain(|key, _| viewer.has_backend(key.as_str()));
        let mut all = backends.values();
        let config = gateway.config();
        let mut disabled = config
            .disabled()
            .filter(|(key, _)| viewer.has_backend(key.as_str()));
        if let Some((key, reason)) = disabled.find(|(key, _)| key.as_str() == &*self.backend) {
            return Err(not_used(key, reason));
        }
        let found = all.find(|backend| backend.key.as_str() == &*self.backend);
        let backend = found.ok_or_else(|| {
            let names = backends.keys().map(|key| key.as_str());
            let (wanted, hint) = (&*self.backend, suggestion(&self.backend, names));
            ToolError::not_found(format!("There is no backend {wanted:?}{hint}"))
        })?;
        if let Some(origin) = call.extension::<OriginalRequest>() {
            origin.notes.set_target(backend.key.shared());
        }
        let arguments = json!({"backend": &*self.backend}).to_string();
        let guarded = GuardedCall {
            tool: Self::NAME,
            backend: &self.backend,
            effect: Self::EFFECT,
            arguments: &arguments,
            call,
        };
        gateway.approvals().admit(&guarded).await?;
        let before = backend.status().state;
        backend.restart();
        Ok(Restarted {
            backend: self.backend.into_inner(),
            before,
            note: "It is starting; gateway_status shows its status.",
        })
    }
}
