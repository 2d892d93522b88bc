//! Fingerprints of tools, as they were first seen: one that becomes another later may have been
//! made to look harmless at first.

use std::collections::{BTreeSet, HashMap};

use hmac_sha256::Hash;
use mcp_core::jsonrpc::Members;
use serde_json::value::RawValue;

use super::Item;

/// A definition without its name, by its hash.
type Fingerprint = [u8; 32];

/// The fingerprints of the tools of one backend, by name.
#[derive(Default)]
pub(super) struct Fingerprints {
    first: HashMap<String, Fingerprint>,
    last: HashMap<String, Fingerprint>,
    /// Tools that were known by another name before.
    renamed: BTreeSet<String>,
}

/// A tool that is not what it was at the last look.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolChange {
    pub(super) tool: String,
    /// Hashes of the definition, in hexadecimal digits.
    pub(super) old: String,
    pub(super) new: String,
    /// The name under which it was known, where that is what has changed.
    pub(super) renamed_from: Option<String>,
}

impl Fingerprints {
    /// Those of `tools` that are not what they were first, and what has changed since the last look.
    pub(super) fn compare(&mut self, tools: &[Item]) -> (BTreeSet<String>, Vec<ToolChange>) {
        let (mut different, mut news) = (BTreeSet::new(), Vec::new());
        let present: BTreeSet<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
        let mut gone: HashMap<Fingerprint, String> = self
            .last
            .iter()
            .filter(|(name, _)| !present.contains(name.as_str()))
            .map(|(name, print)| (*print, name.clone()))
            .collect();
        for tool in tools {
            let print = print(&tool.definition);
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
                news.push(ToolChange {
                    tool: tool.id.clone(),
                    old: hex(&was),
                    new: hex(&print),
                    renamed_from,
                });
            }
        }
        (different, news)
    }

    /// Takes what comes next as the first look: somebody has looked.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

fn print(definition: &RawValue) -> Fingerprint {
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

    fn tool(name: &str, words: &str) -> Vec<Item> {
        let definition = format!(r#"{{"name":"{name}","description":"{words}"}}"#);
        vec![Item {
            id: name.to_owned(),
            definition: RawValue::from_string(definition).unwrap(),
        }]
    }

    #[test]
    fn a_changed_tool_is_reported_until_it_is_accepted() {
        let mut fingerprints = Fingerprints::default();
        let look = |fingerprints: &mut Fingerprints, words: &str| {
            let (different, news) = fingerprints.compare(&tool("work", words));
            (different.len(), news.len())
        };
        assert_eq!(look(&mut fingerprints, "works"), (0, 0));
        assert_eq!(look(&mut fingerprints, "works"), (0, 0));
        assert_eq!(look(&mut fingerprints, "steals"), (1, 1));
        assert_eq!(look(&mut fingerprints, "steals"), (1, 0));
        assert_eq!(look(&mut fingerprints, "works"), (0, 1));
        assert_eq!(look(&mut fingerprints, "steals"), (1, 1));
        fingerprints.forget();
        assert_eq!(look(&mut fingerprints, "steals"), (0, 0));
    }

    #[test]
    fn a_new_name_for_the_same_tool_is_a_change() {
        let mut fingerprints = Fingerprints::default();
        fingerprints.compare(&tool("work", "works"));
        let (different, news) = fingerprints.compare(&tool("labour", "works"));
        assert_eq!(news[0].renamed_from.as_deref(), Some("work"));
        assert_eq!(news[0].old, news[0].new);
        assert!(different.contains("labour"));
        let (different, news) = fingerprints.compare(&tool("labour", "works"));
        assert!(different.contains("labour") && news.is_empty(), "still");
    }
}
