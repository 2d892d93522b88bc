//! What tools looked like when they were first seen: one that becomes another later may have been
//! made to look harmless at first.

use std::collections::{BTreeSet, HashMap};

use hmac_sha256::Hash;

use super::Item;

/// A definition, by its hash.
type Print = [u8; 32];

/// The first and the last known look of each tool, by name.
#[derive(Default)]
pub(super) struct Pins {
    first: HashMap<String, Print>,
    last: HashMap<String, Print>,
}

impl Pins {
    /// Those of `tools` that are not what they were first, and those that were something else at the
    /// last look.
    pub(super) fn compare(&mut self, tools: &[Item]) -> (BTreeSet<String>, Vec<String>) {
        let (mut different, mut news) = (BTreeSet::new(), Vec::new());
        for tool in tools {
            let print = Hash::hash(tool.definition.get().as_bytes());
            let first = *self.first.entry(tool.id.clone()).or_insert(print);
            let last = self.last.insert(tool.id.clone(), print);
            if first != print {
                different.insert(tool.id.clone());
            }
            if last.is_some_and(|last| last != print) {
                news.push(tool.id.clone());
            }
        }
        (different, news)
    }

    /// Takes what comes next as the first look: somebody has looked.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

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
}
