//! Redacts and truncates items of an execution, to fit into a conversation.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use upstream::redact::Redactor;

use super::data::NodeItem;

/// The most JSON of items that one answer holds, in bytes; about 8,000 tokens.
const MAX_SHOWN: usize = 32 * 1024;
const ITEM_LIMITS: ItemLimits = ItemLimits {
    text: 2_000,
    list: 100,
    members: usize::MAX,
};

/// The limits of the parts of a JSON value.
#[derive(Clone, Copy)]
pub struct ItemLimits {
    /// Bytes of a text.
    pub text: usize,
    /// Elements of an array.
    pub list: usize,
    /// Members of an object.
    pub members: usize,
}

/// Converts items to JSON, redacted and truncated to the budget of one answer.
pub(super) struct ItemBudget<'a> {
    pub(super) redactor: &'a Redactor,
    room: usize,
    pub(super) is_cut: bool,
}

impl<'r> ItemBudget<'r> {
    pub(super) fn new(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            room: MAX_SHOWN,
            is_cut: false,
        }
    }

    pub(super) fn items<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a NodeItem>,
        limit: usize,
    ) -> Vec<Map<String, Value>> {
        let mut shown = Vec::new();
        for item in items {
            if shown.len() == limit {
                self.is_cut = true;
                break;
            }
            let mut value = json_of(item);
            drop_error_stack(&mut value);
            // Before a part is left out: the rest of a secret may not look like one.
            self.redactor.json(&mut value);
            let value = shortened(&value, ITEM_LIMITS, &mut self.is_cut);
            let size = value.to_string().len();
            if size > self.room {
                self.is_cut = true;
                break;
            }
            self.room -= size;
            // A correct node puts out only objects.
            shown.push(match value {
                Value::Object(members) => members,
                other => Map::from_iter([("json".to_owned(), other)]),
            });
        }
        shown
    }
}

impl NodeItem {
    /// The JSON byte for byte, or with the files that it has.
    pub(super) fn shown(self) -> Box<RawValue> {
        if self.binary.is_none() {
            return self.json;
        }
        to_raw_value(&json_of(&self)).unwrap_or(self.json)
    }
}

fn json_of(item: &NodeItem) -> Value {
    let mut value: Value = serde_json::from_str(item.json.get()).unwrap_or_default();
    let Some(files) = &item.binary else {
        return value;
    };
    let described = files.iter().map(|(field, file)| {
        let mut about = json!({"file_name": file.file_name, "mime_type": file.mime_type});
        if let Some(size) = &file.file_size {
            about["size"] = size.clone();
        }
        (field.clone(), about)
    });
    let described: Map<String, Value> = described.collect();
    match &mut value {
        Value::Object(members) => _ = members.insert("$binary".into(), described.into()),
        other => *other = json!({"$binary": described}),
    }
    value
}

/// Takes the stack, which names files of n8n, out of an item with an error that the workflow handled; true if it
/// had one.
pub fn drop_error_stack(item: &mut Value) -> bool {
    let error = item.get_mut("error").and_then(Value::as_object_mut);
    error.is_some_and(|error| {
        let stack = error.get("stack").and_then(Value::as_str);
        let is_stack = stack.is_some_and(|stack| stack.contains("\n    at "));
        is_stack && error.remove("stack").is_some()
    })
}

/// The value with long texts, lists and objects truncated.
pub fn shortened(value: &Value, limits: ItemLimits, is_cut: &mut bool) -> Value {
    let mut first = |count: usize, limit: usize| {
        *is_cut |= count > limit;
        limit
    };
    match value {
        Value::String(long) if long.len() > limits.text => {
            *is_cut = true;
            let end = long.floor_char_boundary(limits.text);
            format!("{}… ({} bytes)", &long[..end], long.len()).into()
        }
        Value::Array(all) => {
            let kept = all.iter().take(first(all.len(), limits.list));
            kept.map(|one| shortened(one, limits, is_cut)).collect()
        }
        Value::Object(all) => {
            let kept = all.iter().take(first(all.len(), limits.members));
            kept.map(|(key, one)| (key.clone(), shortened(one, limits, is_cut)))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_at_the_place_of_a_cut_are_hidden() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let text = format!("{} {token} {}", "x ".repeat(990), "y ".repeat(99));
        let item = serde_json::from_value(json!({"json": {"text": text}})).unwrap();
        let (redactor, items): (_, [NodeItem; 1]) = (Redactor::new(true), [item]);
        let mut budget = ItemBudget::new(&redactor);
        let shown = json!(budget.items(&items, 1)).to_string();
        assert!(budget.is_cut && shown.contains("***") && !shown.contains("ghp_"));
    }
}
