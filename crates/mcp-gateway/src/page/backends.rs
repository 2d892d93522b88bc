//! The state of the backends, as `gateway_status` has it, and what an operator needs to mend one.

use gateway_access::Right;
use mcp_core::tool::ToolError;
use serde_json::{Value, json};

use super::{PageViewer, forbidden};
use crate::backend::Backend;
use crate::gateway::Gateway;
use crate::tools::GatewayReport;

/// The tool with the same content.
const STATUS: &str = "gateway_status";

pub(super) fn state(gateway: &Gateway, viewer: &PageViewer) -> Result<Value, ToolError> {
    if !viewer.may_use(STATUS) {
        return Err(forbidden(STATUS));
    }
    let report = GatewayReport::new(gateway, &viewer.0, None);
    let mut state = serde_json::to_value(report)
        .map_err(|error| ToolError::upstream("The state cannot be written.").caused_by(error))?;
    for (key, backend) in gateway.backends() {
        let found = state["backends"].get_mut(key.as_str());
        if let Some(Value::Object(found)) = found {
            found.extend(detail(&backend, viewer.is_operator()));
        }
    }
    state["role"] = json!(viewer.0.role_name());
    state["may"] = json!({
        "restart": viewer.may_use("gateway_restart"),
        "see_all": viewer.is_operator(),
        "decide": viewer.may_decide(),
        "approve": viewer.0.has_roles() && viewer.0.has(Right::Approve),
    });
    state["waiting"] = json!(super::decisions::count(gateway, viewer));
    Ok(state)
}

fn detail(backend: &Backend, is_operator: bool) -> serde_json::Map<String, Value> {
    let mut detail = serde_json::Map::new();
    let mut set = |name: &str, value: Value| detail.insert(name.to_owned(), value);
    if is_operator {
        set("transport", json!(backend.config.target.transport()));
        if let Some(server) = &backend.status().server {
            set("server", json!(server.server_info));
        }
        set("address", json!(backend.config.target.shown()));
        set("stderr", json!(backend.last_lines()));
    }
    detail
}
