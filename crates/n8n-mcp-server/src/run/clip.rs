//! Output that fits into a conversation.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// The most JSON that a run puts out, in bytes; about 8,000 tokens.
const MAX_OUTPUT: usize = 32 * 1024;
/// Ever stricter limits for one item that is too large: (bytes of a text, members of a list).
const CUTS: [(usize, usize); 3] = [(2_000, 100), (500, 20), (100, 5)];

/// One item as it is, several as an array; with a note where something had to be cut.
pub(super) fn bounded(items: Vec<Box<RawValue>>) -> (Box<RawValue>, Option<String>) {
    let count = items.len();
    let size: usize = items.iter().map(|item| item.get().len() + 1).sum();
    if size <= MAX_OUTPUT {
        return (join(items), None);
    }
    let mut room = MAX_OUTPUT;
    let fitting = items.iter().take_while(|item| {
        let needed = item.get().len() + 1;
        let fits = needed <= room;
        room = room.saturating_sub(needed);
        fits
    });
    let kept = fitting.count();
    if kept > 0 {
        let first = array(items.into_iter().take(kept));
        return (
            first,
            Some(format!(
                "Cut: {kept} of {count} items, of {size} bytes in all."
            )),
        );
    }
    let cut = items.first().and_then(|item| shorten(item));
    let note = format!(
        "Cut: the first of {count} items{}, of {size} bytes in all.",
        if cut.is_some() {
            " with long texts and lists shortened"
        } else {
            " is too large to show"
        }
    );
    (cut.unwrap_or_default(), Some(note))
}

fn join(mut items: Vec<Box<RawValue>>) -> Box<RawValue> {
    if items.len() == 1 {
        return items.pop().unwrap_or_default();
    }
    array(items.into_iter())
}

/// The items stay as they are, byte for byte.
fn array(items: impl Iterator<Item = Box<RawValue>>) -> Box<RawValue> {
    to_raw_value(&items.collect::<Vec<_>>()).unwrap_or_default()
}

fn shorten(item: &RawValue) -> Option<Box<RawValue>> {
    let value: Value = serde_json::from_str(item.get()).ok()?;
    let mut tries = CUTS
        .iter()
        .map(|&(text, list)| to_raw_value(&cut(&value, text, list)));
    tries.find_map(|raw| raw.ok().filter(|raw| raw.get().len() <= MAX_OUTPUT))
}

fn cut(value: &Value, text: usize, list: usize) -> Value {
    match value {
        Value::String(long) if long.len() > text => {
            let end = long.floor_char_boundary(text);
            format!("{}… ({} bytes)", &long[..end], long.len()).into()
        }
        Value::Array(all) => all
            .iter()
            .take(list)
            .map(|one| cut(one, text, list))
            .collect(),
        Value::Object(all) => {
            let kept = all.iter().take(list);
            kept.map(|(key, one)| (key.clone(), cut(one, text, list)))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    #[test]
    fn what_fits_is_byte_for_byte() {
        let item = || RawValue::from_string("{\"a\": 1.50, \"a\":\"\\u00e4\"}".into()).unwrap();
        assert_eq!(bounded(vec![item()]).0.get(), item().get());
        assert_eq!(
            bounded(vec![item(), item()]).0.get(),
            format!("[{0},{0}]", item().get())
        );
        assert_eq!(bounded(Vec::new()).0.get(), "[]");
    }

    #[test]
    fn too_many_items_are_counted() {
        let items = (0..1_000)
            .map(|i| raw(&json!({"i": i, "text": "x".repeat(100)})))
            .collect();
        let (output, note) = bounded(items);
        assert!(output.get().len() <= MAX_OUTPUT + 2);
        let kept = serde_json::from_str::<Vec<Value>>(output.get())
            .unwrap()
            .len();
        assert!(
            note.unwrap()
                .starts_with(&format!("Cut: {kept} of 1000 items"))
        );
    }

    #[test]
    fn one_large_item_is_shortened() {
        let item =
            json!({"text": "ä".repeat(50_000), "list": vec![json!({"t": "x".repeat(900)}); 5_000]});
        let (output, note) = bounded(vec![raw(&item)]);
        assert!(output.get().len() <= MAX_OUTPUT);
        assert!(output.get().contains("(100000 bytes)"));
        assert!(note.unwrap().contains("shortened"));
        let hopeless = json!(vec![vec![vec![vec![vec!["x".repeat(101); 9]; 9]; 9]; 9]; 9]);
        let (output, note) = bounded(vec![raw(&hopeless)]);
        assert!(output.get() == "null" || output.get().len() <= MAX_OUTPUT);
        assert!(note.is_some());
    }
}
