//! The tools of the backends: their definitions, their effects, and the roles that may call them.

use mcp_core::tool::{Detail, Effect};
use serde_json::{Value, json};

use super::{PageViewer, decisions};
use crate::gateway::Gateway;

pub(super) fn list(gateway: &Gateway, viewer: &PageViewer) -> Value {
    let catalog = gateway.catalog();
    let config = gateway.config();
    let roles = config.roles.as_ref().filter(|_| viewer.is_operator());
    let scope = catalog.scope(None);
    let tools = scope.into_iter().flat_map(|scope| scope.listed_tools());
    let tools = tools.filter(|tool| viewer.0.allows(tool)).map(|tool| {
        let may_call = roles.map(|roles| {
            let allowed = roles.roles.iter();
            let allowed = allowed.filter(|role| role.decide_tool(tool).is_allowed());
            allowed.map(|role| role.name.as_str()).collect::<Vec<_>>()
        });
        json!({
            "backend": catalog.backend_of(tool).map(ToString::to_string),
            "effect": effect(tool.effect),
            // What a client pays for it in each conversation: four bytes are about a token.
            "tokens": tool.encode(Detail::Basic).len().div_ceil(4),
            "roles": may_call,
            "definition": tool.render(Detail::Full),
        })
    });
    json!({"tools": tools.collect::<Vec<_>>(), "changed": decisions::changed(gateway, viewer)})
}

/// Its name in roles.
fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::ReadOnly => "reads",
        Effect::Additive => "additive",
        Effect::Idempotent => "idempotent",
        Effect::Destructive | Effect::PartlyDestructive => "destructive",
    }
}
