//! Items of an execution that fit into a conversation.

use serde_json::{Map, Value, json};

use super::data::Item;
use crate::redact::Redactor;

/// The most JSON of items that is shown of one execution, in bytes; about 8,000 tokens.
const MAX_SHOWN: usize = 32 * 1024;
/// What is shown of one text or of one list of an item.
const MAX_TEXT: usize = 2_000;
const MAX_LIST: usize = 100;

/// Turns items into JSON that is redacted and bounded, over a whole answer.
pub(super) struct ItemBudget {
    pub(super) redactor: Redactor,
    room: usize,
    pub(super) is_cut: bool,
}

impl ItemBudget {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            room: MAX_SHOWN,
            is_cut: false,
        }
    }

    pub(super) fn items<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a Item>,
        limit: usize,
    ) -> Vec<Map<String, Value>> {
        let mut shown = Vec::new();
        for item in items {
            if shown.len() == limit {
                self.is_cut = true;
                break;
            }
            let mut value = cut(&json_of(item), &mut self.is_cut);
            self.redactor.value(&mut value);
            let size = value.to_string().len();
            if size > self.room {
                self.is_cut = true;
                break;
            }
            self.room -= size;
            // An item that is no object is a mistake of the node that put it out.
            shown.push(match value {
                Value::Object(members) => members,
                other => Map::from_iter([("json".to_owned(), other)]),
            });
        }
        shown
    }
}

fn json_of(item: &Item) -> Value {
    let mut value: Value = serde_json::from_str(item.json.get()).unwrap_or_default();
    let Some(files) = &item.binary else {
        return value;
    };
    let described = files.iter().map(|(field, file)| {
        let about = json!({"file_name": file.file_name, "mime_type": file.mime_type, "size": file.file_size});
        (field.clone(), about)
    });
    let described: Map<String, Value> = described.collect();
    match &mut value {
        Value::Object(members) => _ = members.insert("$binary".into(), described.into()),
        other => *other = json!({"$binary": described}),
    }
    value
}

fn cut(value: &Value, is_cut: &mut bool) -> Value {
    match value {
        Value::String(long) if long.len() > MAX_TEXT => {
            *is_cut = true;
            let end = long.floor_char_boundary(MAX_TEXT);
            format!("{}… ({} bytes)", &long[..end], long.len()).into()
        }
        Value::Array(all) => {
            *is_cut |= all.len() > MAX_LIST;
            all.iter()
                .take(MAX_LIST)
                .map(|one| cut(one, is_cut))
                .collect()
        }
        Value::Object(all) => {
            let members = all.iter();
            members
                .map(|(key, one)| (key.clone(), cut(one, is_cut)))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}
