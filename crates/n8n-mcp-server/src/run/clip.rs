//! Output that fits into a conversation.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use upstream::text::fitting;

use crate::trace::{Limits, shortened};

/// The most JSON that a run puts out, in bytes; about 8,000 tokens.
const MAX_OUTPUT: usize = 32 * 1024;
/// Ever stricter limits for one item that is too large: (bytes of a text, members of a list).
const CUTS: [(usize, usize); 3] = [(2_000, 100), (500, 20), (100, 5)];

/// One item as it is, several as an array, byte for byte; with a note where something had to be cut.
pub(super) fn bounded(items: Vec<Box<RawValue>>) -> (Box<RawValue>, Option<String>) {
    let count = items.len();
    let size: usize = items.iter().map(|item| item.get().len() + 1).sum();
    let too_large = items.first().filter(|item| item.get().len() >= MAX_OUTPUT);
    if let Some(item) = too_large {
        let (cut, how) = match shorten(item) {
            Some(cut) => (cut, " with long texts and lists shortened"),
            None => (Box::default(), " is too large to show"),
        };
        let note = format!("Cut: the first of {count} items{how}, of {size} bytes in all.");
        return (cut, Some(note));
    }
    let mut kept = fitting(items, MAX_OUTPUT).rows;
    if count == 1 {
        return (kept.pop().unwrap_or_default(), None);
    }
    let shown = kept.len();
    let note = format!("Cut: {shown} of {count} items, of {size} bytes in all.");
    let output = to_raw_value(&kept).unwrap_or_default();
    (output, (shown < count).then_some(note))
}

fn shorten(item: &RawValue) -> Option<Box<RawValue>> {
    let value: Value = serde_json::from_str(item.get()).ok()?;
    let mut tries = CUTS.iter().map(|&(text, list)| {
        let limits = Limits {
            text,
            list,
            members: list,
        };
        to_raw_value(&shortened(&value, limits, &mut false))
    });
    tries.find_map(|raw| raw.ok().filter(|raw| raw.get().len() <= MAX_OUTPUT))
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
