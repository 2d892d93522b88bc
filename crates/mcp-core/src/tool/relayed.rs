//! Tool definitions of other servers, passed on unchanged.

use serde_json::Value;

use super::Detail;
use crate::jsonrpc::Members;

/// The members that are passed on, in the order of the lists.
const MEMBERS: [&str; 8] = [
    "title",
    "icons",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "execution",
    "_meta",
];

/// A tool's original definition. Known members are selected from it and keep their bytes, so that
/// numbers keep their digits.
#[derive(Clone, Debug)]
pub(super) struct RelayedDefinition {
    pub(super) members: Members,
    /// The name in the list of seed 001.
    pub(super) seed_001_name: String,
}

impl RelayedDefinition {
    /// The definition as `name`, with the members of `detail`.
    pub(super) fn encode(&self, name: &str, detail: Detail) -> String {
        let is_seed_001 = detail == Detail::Seed001;
        let name = if is_seed_001 {
            &self.seed_001_name
        } else {
            name
        };
        let mut text = format!(r#"{{"name":{}"#, Value::from(name));
        let shown = MEMBERS.iter().filter(|name| detail.shows(name));
        let renamed = is_seed_001.then_some(("parameter_schema", "inputSchema"));
        for (name, original) in shown.map(|name| (*name, *name)).chain(renamed) {
            if let Some(json) = self.members.get(original) {
                text.push_str(&format!(r#","{name}":{json}"#));
            }
        }
        text.push('}');
        text
    }
}
