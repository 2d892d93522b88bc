//! What tools looked like when they were first seen: one that becomes another later may have been
//! made to look harmless at first.

use std::collections::{BTreeSet, HashMap};

use hmac_sha256::Hash;
use mcp_core::jsonrpc::Members;
use serde_json::value::RawValue;

use super::Item;

/// A definition without its name, by its hash.
type Print = [u8; 32];

/// What tools looked like, by name.
#[derive(Default)]
pub(super) struct Pins {
    first: HashMap<String, Print>,
    last: HashMap<String, Print>,
    /// Tools that were known by another name before.
    renamed: BTreeSet<String>,
}

/// A tool that is not what it was at the last look.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) tool: String,
    /// Hashes of the definition, in hexadecimal digits.
    pub(super) old: String,
    pub(super) new: String,
    /// The name under which it was known, where that is what has changed.
    pub(super) renamed_from: Option<String>,
}

impl Pins {
    /// Those of `tools` that are not what they were first, and what has changed since the last look.
    pub(super) fn compare(&mut self, tools: &[Item]) -> (BTreeSet<String>, Vec<Change>) {
        let (mut different, mut news) = (BTreeSet::new(), Vec::new());
        let present: BTreeSet<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
        let mut gone: HashMap<Print, String> = self
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
                news.push(Change {
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

fn print(definition: &RawValue) -> Print {
    match Members::read(definition.get()) {
        Some(mut members) => {
            members.remove("name");
            Hash::hash(members.encode().as_bytes())
        }
        None => Hash::hash(definition.get().as_bytes()),
    }
}

fn hex(print: &Print) -> String {
    let digits = print.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_becomes_another_is_seen_until_somebody_has_looked() {
        let tool = |words: &str| {
            let definition = format!(r#"{{"name":"work","description":"{words}"}}"#);
            vec![Item {
                id: "work".to_owned(),
                definition: RawValue::from_string(definition).unwrap(),
            }]
        };
        let mut pins = Pins::default();
        let look = |pins: &mut Pins, words: &str| {
            let (different, news) = pins.compare(&tool(words));
            (different.len(), news.len())
        };
        assert_eq!(look(&mut pins, "works"), (0, 0));
        assert_eq!(look(&mut pins, "works"), (0, 0));
        assert_eq!(look(&mut pins, "steals"), (1, 1));
        assert_eq!(look(&mut pins, "steals"), (1, 0));
        assert_eq!(look(&mut pins, "works"), (0, 1));
        assert_eq!(look(&mut pins, "steals"), (1, 1));
        pins.forget();
        assert_eq!(look(&mut pins, "steals"), (0, 0));
    }

    #[test]
    fn a_new_name_for_the_same_tool_is_a_change() {
        let tool = |name: &str| {
            let definition = format!(r#"{{"name":"{name}","description":"works"}}"#);
            vec![Item {
                id: name.to_owned(),
                definition: RawValue::from_string(definition).unwrap(),
            }]
        };
        let mut pins = Pins::default();
        pins.compare(&tool("work"));
        let (different, news) = pins.compare(&tool("labour"));
        assert_eq!(news[0].renamed_from.as_deref(), Some("work"));
        assert_eq!(news[0].old, news[0].new);
        assert!(different.contains("labour"));
        let (different, news) = pins.compare(&tool("labour"));
        assert!(different.contains("labour") && news.is_empty(), "still");
    }
}
