//! Truncates the output of a run to fit into a conversation.

use std::collections::BTreeMap;

use n8n_workflow::trace::{ItemLimits, shortened};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use upstream::redact::Redactor;
use upstream::text::fitting;

/// Bytes of JSON; about 2,000 tokens.
const MAX_OUTPUT: usize = 8 * 1024;
/// Limits for one item that is too large, stricter step by step: (bytes of a text, members of a
/// list).
const TRUNCATION_STEPS: [(usize, usize); 3] = [(2_000, 100), (500, 20), (100, 5)];

/// The parts of the output that a caller wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputSelection {
    /// Number of items from the first; all if absent.
    pub(crate) items: Option<u32>,
    /// Members of each item; all if empty.
    pub(crate) fields: Vec<String>,
}

impl OutputSelection {
    /// The selected items with the selected members, redacted and truncated, and a note if something was
    /// left out.
    pub(super) fn apply(
        &self,
        mut items: Vec<Box<RawValue>>,
        redactor: &Redactor,
    ) -> (Box<RawValue>, Option<String>) {
        let (count, is_one) = (items.len(), items.len() == 1);
        let limit = self.items.map_or(count, |limit| limit as usize);
        items.truncate(limit);
        let mut size = 0;
        let shown = items.into_iter().map(|item| {
            // Whole, as a member or the beginning of a text may not look like a secret. What comes after
            // the bound is not shown.
            let item = match size > MAX_OUTPUT {
                true => item,
                false => redactor.raw_json(item),
            };
            let item = self.members(item);
            size += item.get().len();
            item
        });
        let items = shown.collect();
        let (output, note) = truncate_items(items, is_one);
        let chosen = || format!("The first {limit} of {count} items.");
        (output, note.or_else(|| (limit < count).then(chosen)))
    }

    fn members(&self, item: Box<RawValue>) -> Box<RawValue> {
        if self.fields.is_empty() {
            return item;
        }
        // Byte for byte, so that numbers stay as they are.
        let members: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(item.get()).ok();
        let chosen = members.map(|mut members| {
            members.retain(|name, _| self.fields.contains(name));
            to_raw_value(&members)
        });
        chosen.and_then(Result::ok).unwrap_or(item)
    }
}

/// One item as it is, several as an array, byte for byte; with a note if something was truncated.
fn truncate_items(items: Vec<Box<RawValue>>, is_one: bool) -> (Box<RawValue>, Option<String>) {
    let count = items.len();
    let size: usize = items.iter().map(|item| item.get().len() + 1).sum();
    if let Some(item) = items.first().filter(|item| item.get().len() >= MAX_OUTPUT) {
        let (output, how) = match truncate_item(item) {
            Some(output) => (output, " with long texts and lists shortened"),
            None => (Box::default(), " is too large to show"),
        };
        let note = format!("Cut: the first of {count} items{how}, of {size} bytes in all.");
        return (output, Some(note));
    }
    let mut kept = fitting(items, MAX_OUTPUT).rows;
    if is_one {
        return (kept.pop().unwrap_or_default(), None);
    }
    let shown = kept.len();
    let note = format!(
        "Cut: {shown} of {count} items, of {size} bytes in all; `items` and `fields` of get_execution \
         choose."
    );
    let output = to_raw_value(&kept).unwrap_or_default();
    (output, (shown < count).then_some(note))
}

fn truncate_item(item: &RawValue) -> Option<Box<RawValue>> {
    let value: Value = serde_json::from_str(item.get()).ok()?;
    TRUNCATION_STEPS.iter().find_map(|&(text, list)| {
        let members = list;
        let limits = ItemLimits {
            text,
            list,
            members,
        };
        let raw = to_raw_value(&shortened(&value, limits, &mut false)).ok()?;
        (raw.get().len() <= MAX_OUTPUT).then_some(raw)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    fn applied(items: Vec<Box<RawValue>>) -> (Box<RawValue>, Option<String>) {
        OutputSelection::default().apply(items, &Redactor::new(true))
    }

    #[test]
    fn secrets_are_hidden_before_anything_is_left_out() {
        let header = json!({"name": "Authorization", "value": "hunter2"});
        let value = OutputSelection {
            items: None,
            fields: vec!["value".into()],
        };
        let (output, _) = value.apply(vec![raw(&header); 2], &Redactor::new(true));
        assert_eq!(output.get(), r#"[{"value":"***"},{"value":"***"}]"#);
        // The end of the first step of truncation is within the token.
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let long = json!({"t": format!("{} {token} {}", "x ".repeat(990), "y ".repeat(9_000))});
        let (output, _) = applied(vec![raw(&long)]);
        assert!(output.get().contains("***") && !output.get().contains("ghp_"));
    }

    #[test]
    fn small_output_is_byte_for_byte() {
        let item = || RawValue::from_string("{\"a\": 1.50, \"a\":\"\\u00e4\"}".into()).unwrap();
        let output = |items| applied(items).0.get().to_owned();
        let two = format!("[{0},{0}]", item().get());
        assert_eq!(output(vec![item()]), item().get());
        assert_eq!(output(vec![item(), item()]), two);
        assert_eq!(output(Vec::new()), "[]");
    }

    #[test]
    fn too_many_items_are_counted() {
        let item = |i| raw(&json!({"i": i, "text": "x".repeat(100)}));
        let (output, note) = applied((0..1_000).map(item).collect());
        assert!(output.get().len() <= MAX_OUTPUT + 2);
        let kept: Vec<Value> = serde_json::from_str(output.get()).unwrap();
        let expected = format!("Cut: {} of 1000 items", kept.len());
        assert!(note.unwrap().starts_with(&expected));
    }

    #[test]
    fn one_large_item_is_shortened() {
        let item =
            json!({"text": "ä".repeat(50_000), "list": vec![json!({"t": "x".repeat(900)}); 5_000]});
        let (output, note) = applied(vec![raw(&item)]);
        assert!(output.get().len() <= MAX_OUTPUT);
        assert!(output.get().contains("(100000 bytes)"));
        assert!(note.unwrap().contains("shortened"));
        let hopeless = json!(vec![vec![vec![vec![vec!["x".repeat(101); 9]; 9]; 9]; 9]; 9]);
        let (output, note) = applied(vec![raw(&hopeless)]);
        assert!(output.get() == "null" || output.get().len() <= MAX_OUTPUT);
        assert!(note.is_some());
    }
}
