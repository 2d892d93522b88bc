//! Bounds the results of tools, whatever their arguments: every byte costs the user tokens.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ToolError, ToolResult};
use crate::jsonrpc::Json;

/// Objects with more members are maps, from which members may be left out.
const MAX_FIELDS: usize = 30;
/// Bytes of a text that is not shortened any more.
const MIN_TEXT: usize = 100;
/// The member that says what is missing; no tool has one of this name.
const NOTE: &str = "shortened";
/// The member of a page with which the next page is read.
const NEXT_CURSOR: &str = "next_cursor";

/// The result of a tool with at most `max` bytes: of JSON that is sent as a structure and as text. A tool knows best what
/// to leave out; this holds for what it did not foresee.
pub(crate) fn limited(
    max: Option<usize>,
    result: Result<ToolResult, ToolError>,
) -> Result<ToolResult, ToolError> {
    let Some(max) = max else { return result };
    match result {
        Ok(ToolResult::Structured(json)) => shortened(json, max)
            .map(ToolResult::Structured)
            .map_err(ToolError::unwritable),
        Err(error) if error.message().len() > max => {
            let text = without_middle(error.message(), max);
            Err(error.with_message(text))
        }
        other => other,
    }
}

/// The JSON, without the ends of its longest lists and the middles of its longest texts if it is too long.
fn shortened(json: Json, max: usize) -> serde_json::Result<Json> {
    let mut bytes = weight(json.as_str());
    if bytes <= max {
        return Ok(json);
    }
    let mut value: Value = serde_json::from_str(json.as_str())?;
    let rows = rows(&value);
    let mut is_page_cut = false;
    let mut cuts = BTreeMap::new();
    while bytes > max && cut(&mut value, "the result", (max, bytes), &mut cuts) {
        let parts = cuts.iter().map(|(name, count)| format!("{count} {name}"));
        let parts: Vec<_> = parts.collect();
        let parts = parts.join(", ");
        let has_all_rows = self::rows(&value) == rows;
        if let Value::Object(members) = &mut value {
            let mut note = format!("Left out, since it is too long: {parts}. ");
            // The next page would begin after rows that were never shown.
            is_page_cut |= !has_all_rows && members.remove(NEXT_CURSOR).is_some();
            note.push_str(match is_page_cut {
                true => "Repeat this call with a smaller `limit`; the next page would skip them.",
                false => "Ask for less at once.",
            });
            members.insert(NOTE.to_owned(), note.into());
        }
        bytes = weight(&value.to_string());
    }
    Ok(value.into())
}

/// The number of items in the lists of a result.
fn rows(result: &Value) -> usize {
    let members = result.as_object().into_iter().flatten();
    let lists = members.filter_map(|(_, member)| member.as_array());
    lists.map(Vec::len).sum()
}

/// The bytes of JSON, and of the same as a text in JSON.
fn weight(json: &str) -> usize {
    let escaped = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\'));
    2 * json.len() + escaped.count() + 2
}

/// Shortens the largest part of `value`, which is the member `name`, by about the share that is too much.
/// Returns false if nothing can be left out.
fn cut(
    value: &mut Value,
    name: &str,
    (max, bytes): (usize, usize),
    cuts: &mut BTreeMap<String, usize>,
) -> bool {
    let share = |length: usize| (length * max / bytes).min(length - length.div_ceil(8));
    let (kind, count) = match value {
        Value::String(text) if text.len() > MIN_TEXT => {
            let shorter = without_middle(text, share(text.len()).max(MIN_TEXT / 2));
            let count = text.len().saturating_sub(shorter.len());
            *text = shorter;
            ("bytes", count)
        }
        Value::Array(items) => {
            let sizes = items.iter().map(|item| item.to_string().len());
            let sizes: Vec<usize> = sizes.collect();
            let largest = (0..sizes.len()).max_by_key(|&at| sizes[at]);
            let Some(largest) = largest else { return false };
            // The item is most of the list.
            if 2 * sizes[largest] > sizes.iter().sum()
                && cut(&mut items[largest], name, (max, bytes), cuts)
            {
                return true;
            }
            let left = share(items.len()).max(1);
            let count = items.len() - left;
            items.truncate(left);
            ("items", count)
        }
        Value::Object(members) => {
            let sizes = members
                .iter()
                .filter(|(name, _)| *name != NOTE && *name != NEXT_CURSOR)
                .map(|(name, member)| (member.to_string().len(), name.clone()));
            let mut sizes: Vec<_> = sizes.collect();
            sizes.sort_unstable();
            for (_, part) in sizes.iter().rev() {
                let member = members.get_mut(part);
                let parent = if sizes.len() > MAX_FIELDS { name } else { part };
                if member.is_some_and(|member| cut(member, parent, (max, bytes), cuts)) {
                    return true;
                }
            }
            if sizes.len() <= MAX_FIELDS {
                return false;
            }
            let left = share(sizes.len());
            let last = members.keys().skip(left).cloned().collect::<Vec<_>>();
            last.iter().for_each(|name| _ = members.remove(name));
            ("members", last.len())
        }
        _ => return false,
    };
    if count > 0 {
        *cuts.entry(format!("{kind} of {name}")).or_default() += count;
    }
    count > 0
}

/// The beginning and the end of a text, of about `max` bytes together.
fn without_middle(text: &str, max: usize) -> String {
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    format!("{} […] {}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shorten(value: &Value, max: usize) -> Value {
        let json = shortened(value.clone().into(), max).unwrap();
        assert!(weight(json.as_str()) <= max, "{value}");
        serde_json::from_str(json.as_str()).unwrap()
    }

    #[test]
    fn results_that_fit_are_unchanged() {
        let small = json!({"rows": vec!["a"; 50], "text": "x".repeat(300)});
        assert_eq!(shorten(&small, 2_000), small);
    }

    #[test]
    fn every_shape_of_result_is_shortened_and_says_so() {
        let map = |count: usize| -> Value {
            let names = (0..count).map(|at| (format!("name-{at:04}"), json!("short")));
            names.collect::<serde_json::Map<_, _>>().into()
        };
        let texts = (0..14).map(|at| (at.to_string(), json!("z".repeat(400))));
        let fields: serde_json::Map<_, _> = texts.collect();
        let row = |name: &str, value: Value| json!({"rows": [{"id": 1, name: value}]});
        let lists = json!({"a": vec!["item"; 400], "b": vec![9; 400], "c": "y".repeat(4_000)});
        for (value, expected) in [
            (
                json!({"rows": vec!["a row of a list"; 900]}),
                "items of rows",
            ),
            (row("names", json!(vec!["a name"; 900])), "items of names"),
            (row("text", "ä\"\n".repeat(9_000).into()), "bytes of text"),
            (json!({"failed": map(900), "count": 1}), "members of failed"),
            (lists, "bytes of c"),
            (json!({"fields": fields}), "bytes of"),
        ] {
            let short = shorten(&value, 4_000);
            let note = short[NOTE].as_str().unwrap();
            assert!(note.contains(expected), "{note}");
            let bytes = weight(&short.to_string());
            assert!(bytes > 2_000, "{bytes}: {short}");
        }
    }

    #[test]
    fn first_rows_stay_and_are_counted() {
        let rows: Vec<Value> = (0..500)
            .map(|at| json!({"id": at, "name": "web"}))
            .collect();
        let short = shorten(&json!({"rows": rows, "total": 500}), 3_000);
        let shown = short["rows"].as_array().unwrap();
        assert_eq!(shown[..], rows[..shown.len()]);
        let note = format!("{} items of rows", 500 - shown.len());
        assert!(short[NOTE].as_str().unwrap().contains(&note), "{short}");
        assert_eq!(short["total"], 500);
    }

    #[test]
    fn a_page_without_all_its_rows_has_no_cursor() {
        let page = |text: &str, count: usize| {
            let rows = vec![json!({"text": text}); count];
            shorten(&json!({"rows": rows, "next_cursor": "n"}), 4_000)
        };
        let cut = page("short", 500);
        assert!(cut.get(NEXT_CURSOR).is_none(), "{cut}");
        let note = cut[NOTE].as_str().unwrap();
        assert!(note.contains("smaller `limit`"), "{note}");
        // All rows are there, one with a shorter text.
        let whole = page(&"z".repeat(9_000), 1);
        assert_eq!(whole[NEXT_CURSOR], "n");
    }

    #[test]
    fn members_of_a_tool_are_not_replaced_by_the_note() {
        let result = json!({"rows": vec!["a row"; 900], "left_out": ["settings: x"]});
        assert_eq!(shorten(&result, 3_000)["left_out"], json!(["settings: x"]));
    }
}
