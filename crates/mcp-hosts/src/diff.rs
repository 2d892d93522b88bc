//! The difference of two texts for people.

use std::fmt::Write as _;
use std::path::Path;

use crate::text::Change;

/// The most characters of a line that are shown.
const MAX_SHOWN_LINE: usize = 200;

/// Renders the lines that differ. Only the texts `shown` are not masked: the others belong to other entries and
/// may be secrets.
pub(crate) fn render(path: &Path, before: &str, after: &str, shown: &[String]) -> String {
    let mut text = String::new();
    if before == after {
        return text;
    }
    let change = Change::between(before, after);
    let start = before[..change.start].rfind('\n').map_or(0, |at| at + 1);
    let line = before[..start].matches('\n').count() + 1;
    let _ = writeln!(text, "--- {0}\n+++ {0}\n@@ line {line} @@", path.display());
    let escaped = shown
        .iter()
        .map(|text| serde_json::Value::from(text.as_str()).to_string());
    let escaped = escaped.map(|text| text[1..text.len() - 1].to_owned());
    let allowed: Vec<String> = shown.iter().cloned().chain(escaped).collect();
    let new_end = change.start + change.new.len();
    for (mark, whole, end) in [('-', before, change.end), ('+', after, new_end)] {
        if mark == '-' && change.start == end && start == change.start {
            continue;
        }
        let end = whole[end..].find('\n').map_or(whole.len(), |at| end + at);
        for line in whole[start..end].lines() {
            let line = masked(line, &allowed);
            let head: String = line.chars().take(MAX_SHOWN_LINE).collect();
            let rest = if head.len() < line.len() { "…" } else { "" };
            let _ = writeln!(text, "{mark}{head}{rest}");
        }
    }
    text
}

/// Replaces every text and word of a line that is not allowed. A text without an end reaches to that of the line.
fn masked(line: &str, allowed: &[String]) -> String {
    let is_allowed = |text: &str| text.is_empty() || allowed.iter().any(|known| known == text);
    let (mut masked, mut rest) = (String::new(), line);
    let hide = |masked: &mut String| {
        if !masked.ends_with('…') {
            masked.push('…');
        }
    };
    while let Some(first) = rest.chars().next() {
        if matches!(first, '"' | '\'') {
            let text = &rest[1..];
            let Some(end) = end_of_text(text, first) else {
                hide(&mut masked);
                return masked;
            };
            masked.push(first);
            match is_allowed(&text[..end]) {
                true => masked.push_str(&text[..end]),
                false => masked.push('…'),
            }
            masked.push(first);
            rest = &text[end + 1..];
            continue;
        }
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        let length = match length {
            0 if first.is_whitespace() || "{}[]:,=.".contains(first) => {
                masked.push(first);
                first.len_utf8()
            }
            0 => {
                hide(&mut masked);
                first.len_utf8()
            }
            _ if is_allowed(word) || matches!(word, "true" | "false" | "null") => {
                masked.push_str(word);
                length
            }
            _ => {
                hide(&mut masked);
                length
            }
        };
        rest = &rest[length..];
    }
    masked
}

fn end_of_text(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    let mut letters = text.char_indices();
    let end = letters.find(|(_, letter)| match *letter {
        _ if is_escaped => {
            is_escaped = false;
            false
        }
        '\\' => {
            is_escaped = quote == '"';
            false
        }
        letter => letter == quote,
    });
    Some(end?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_texts_are_shown() {
        let allowed = ["key", "mine"].map(str::to_owned);
        for (line, expected) in [
            (r#"  "key": "mine","#, r#"  "key": "mine","#),
            (r#"{"key": "pw", "x": 12}"#, r#"{"key": "…", "…": …}"#),
            ("// don't tell \"hunter2\"", "… …"),
            ("key = \"abc", "key = …"),
            ("key = 'a' # pw", "key = '…' … …"),
            ("\"a\\\"b\" pw", "\"…\" …"),
        ] {
            assert_eq!(masked(line, &allowed), expected, "{line}");
        }
    }
}
