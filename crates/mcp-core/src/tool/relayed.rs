//! Definitions from other servers, passed on as they were written.

use serde_json::Value;

use super::Detail;
use crate::jsonrpc::Members;

/// A tool's definition as its server wrote it. What this server knows is selected from it, member
/// by member, and nothing is written anew: numbers keep their digits.
#[derive(Clone, Debug)]
pub(super) struct RelayedDefinition {
    pub(super) members: Members,
    /// The name that seed 001's list shows.
    pub(super) seed_001_name: String,
}

impl RelayedDefinition {
    /// The definition as `name`, with the members that `detail` shows.
    pub(super) fn encode(&self, name: &str, detail: Detail) -> String {
        let is_legacy = detail == Detail::Seed001;
        let name = if is_legacy { &self.seed_001_name } else { name };
        let mut text = format!(r#"{{"name":{}"#, Value::from(name));
        let mut push = |key: &str, json: &str| {
            text.push_str(&format!(r#","{key}":{json}"#));
        };
        for key in detail.relayed_members() {
            if let Some(json) = self.members.get(key) {
                push(key, json);
            }
        }
        if let (true, Some(schema)) = (is_legacy, self.members.get("inputSchema")) {
            push("parameter_schema", schema);
        }
        text.push('}');
        text
    }
}
