//! Fingerprints of tool definitions. A definition that changes later ("rug pull") may have been
//! harmless only at first.

use std::collections::{BTreeSet, HashMap};

use hmac_sha256::Hash;
use mcp_core::jsonrpc::Members;
use serde_json::value::RawValue;

use super::ListedItem;

/// The SHA-256 hash of a definition without its name.
type Fingerprint = [u8; 32];

/// The fingerprints of the tools of one backend, by name.
#[derive(Default)]
pub(super) struct Fingerprints {
    first: HashMap<String, Fingerprint>,
    last: HashMap<String, Fingerprint>,
    /// Tools that had another name before.
    renamed: BTreeSet<String>,
}

/// A tool whose definition is not the one of the last check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolChange {
    pub(super) tool: String,
    /// Hashes of the definition, in hexadecimal digits.
    pub(super) old: String,
    pub(super) new: String,
    /// The old name, if only the name has changed.
    pub(super) renamed_from: Option<String>,
}

impl Fingerprints {
    /// Returns the tools that differ from their first definition, and the changes since the last
    /// check.
    pub(super) fn compare(&mut self, tools: &[ListedItem]) -> (BTreeSet<String>, Vec<ToolChange>) {
        let (mut different, mut changes) = (BTreeSet::new(), Vec::new());
        let present: BTreeSet<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
        let mut gone: HashMap<Fingerprint, String> = self
            .last
            .iter()
            .filter(|(name, _)| !present.contains(name.as_str()))
            .map(|(name, print)| (*print, name.clone()))
            .collect();
        for tool in tools {
            let print = fingerprint(&tool.definition);
            let is_known = self.first.contains_key(&tool.id);
            let first = *self.first.entry(tool.id.clone()).or_insert(print);
            let last = self.last.insert(tool.id.clone(), print);
            let renamed_from = if is_known { None } else { gone.remove(&print) };
            if renamed_from.is_some() {
                self.renamed.insert(tool.id.clone());
            }
            if first != print || self.renamed.contains(&tool.id) {
                different.insert(tool.id.clone());
            }
            let was = last.or(renamed_from.is_some().then_some(print));
            if let Some(was) = was.filter(|was| *was != print || renamed_from.is_some()) {
                changes.push(ToolChange {
                    tool: tool.id.clone(),
                    old: hex(&was),
                    new: hex(&print),
                    renamed_from,
                });
            }
        }
        (different, changes)
    }

    /// Accepts the next definitions as the first ones.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

fn fingerprint(definition: &RawValue) -> Fingerprint {
    match Members::read(definition.get()) {
        Some(mut members) => {
            members.remove("name");
            Hash::hash(members.encode().as_bytes())
        }
        None => Hash::hash(definition.get().as_bytes()),
    }
}

fn hex(print: &Fingerprint) -> String {
    let digits = print.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, words: &str) -> Vec<ListedItem> {
        let definition = format!(r#"{{"name":"{name}","description":"{words}"}}"#);
        vec![ListedItem {
            id: name.to_owned(),
            definition: RawValue::from_string(definition).unwrap(),
        }]
    }

    #[test]
    fn changed_tool_is_reported_until_it_is_accepted() {
        let mut fingerprints = Fingerprints::default();
        for (words, expected) in [
            ("works", (0, 0)),
            ("works", (0, 0)),
            ("steals", (1, 1)),
            ("steals", (1, 0)),
            ("works", (0, 1)),
            ("steals", (1, 1)),
            ("accepted", (0, 0)),
        ] {
            if words == "accepted" {
                fingerprints.reset();
            }
            let (different, changes) = fingerprints.compare(&tool("work", words));
            assert_eq!((different.len(), changes.len()), expected, "{words}");
        }
    }

    #[test]
    fn renamed_tool_is_a_change() {
        let mut fingerprints = Fingerprints::default();
        fingerprints.compare(&tool("work", "works"));
        let (different, changes) = fingerprints.compare(&tool("labour", "works"));
        assert_eq!(changes[0].renamed_from.as_deref(), Some("work"));
        assert_eq!(changes[0].old, changes[0].new);
        assert!(different.contains("labour"));
        let (different, changes) = fingerprints.compare(&tool("labour", "works"));
        assert!(different.contains("labour") && changes.is_empty(), "still");
    }
}
