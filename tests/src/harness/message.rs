//! Messages of the protocol as JSON.

use serde_json::{Value, json};

/// A request with the id 1.
pub(crate) fn rpc(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// A call of a tool with the id 1.
pub(crate) fn rpc_call(tool: &str, arguments: Value) -> Value {
    rpc("tools/call", json!({"name": tool, "arguments": arguments}))
}

/// The response to a request of an id, with this member: `result` or `error`.
pub(crate) fn response(id: &Value, member: &str, value: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id, member: value.into()})
}

/// The `_meta` of 2026-07-28, of a client with these capabilities.
pub(crate) fn modern_meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// The handshake of a client that can be asked.
pub(crate) fn initialize(revision: &str) -> Value {
    let client = json!({"name": "tests", "version": "1"});
    let capabilities = json!({"elicitation": {}});
    let params =
        json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
    rpc("initialize", params)
}
