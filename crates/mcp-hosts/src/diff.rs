//! The difference of two texts for people.

use std::fmt::Write as _;
use std::path::Path;

use crate::text::Change;

/// The longest text of another entry that is shown.
const MAX_SHOWN_TEXT: usize = 12;

/// The most characters of a line that are shown.
const MAX_SHOWN_LINE: usize = 200;

/// Renders the lines that differ. Texts that were in the file before are masked: they belong to other entries
/// and may be secrets.
pub(crate) fn render(path: &Path, before: &str, after: &str) -> String {
    let mut text = String::new();
    if before == after {
        return text;
    }
    let change = Change::between(before, after);
    let start = before[..change.start].rfind('\n').map_or(0, |at| at + 1);
    let line = before[..start].matches('\n').count() + 1;
    let _ = writeln!(text, "--- {0}\n+++ {0}\n@@ line {line} @@", path.display());
    let new_end = change.start + change.new.len();
    for (mark, whole, end) in [('-', before, change.end), ('+', after, new_end)] {
        if mark == '-' && change.start == end && start == change.start {
            continue;
        }
        let end = whole[end..].find('\n').map_or(whole.len(), |at| end + at);
        for line in whole[start..end].lines() {
            let line = masked(line, before);
            let shown: String = line.chars().take(MAX_SHOWN_LINE).collect();
            let rest = if shown.len() < line.len() { "…" } else { "" };
            let _ = writeln!(text, "{mark}{shown}{rest}");
        }
    }
    text
}

/// Replaces the longer texts of a line that occur in `before`.
fn masked(line: &str, before: &str) -> String {
    let (mut masked, mut rest) = (String::new(), line);
    while let Some(start) = rest.find(['"', '\'']) {
        let quote = rest[start..].chars().next().unwrap_or('"');
        let text = &rest[start + 1..];
        let Some(end) = end_of_text(text, quote) else {
            break;
        };
        masked.push_str(&rest[..=start]);
        match text[..end].chars().count() > MAX_SHOWN_TEXT && before.contains(&text[..end]) {
            true => masked.push('…'),
            false => masked.push_str(&text[..end]),
        }
        masked.push(quote);
        rest = &text[end + 1..];
    }
    masked + rest
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
