//! Truncates texts and lists to a budget: every byte of a response costs tokens.

use serde::Serialize;

/// The first `max` characters, with `…` where there were more.
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first line, truncated.
pub fn first_line(text: &str, max: usize) -> String {
    truncate(text.lines().next().unwrap_or_default(), max)
}

/// The text in one line, with one blank for each run of white space and control characters,
/// truncated.
pub fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // Each character has at most four bytes.
        if line.len() > 4 * max {
            break;
        }
    }
    truncate(&line, max)
}

/// The first part of a text that fits into `max` bytes of JSON, at least one character, with a note about the rest.
pub fn head(text: &str, max: usize) -> String {
    match page(text, 0, max) {
        (shown, None) => shown.to_owned(),
        (shown, Some(end)) => format!("{shown}\n[cut: {end} of {} bytes shown]", text.len()),
    }
}

/// The part of a text from byte `offset` on that fits into `max` bytes of JSON, at least one character, and the
/// offset of the rest.
pub fn page(text: &str, offset: usize, max: usize) -> (&str, Option<usize>) {
    let text_from = text.floor_char_boundary(offset);
    let rest = text.get(text_from..).unwrap_or_default();
    let mut room = max;
    let mut chars = rest.char_indices();
    let left_out = chars.find(|&(at, c)| !take(&mut room, cost(c)) && at > 0);
    match left_out {
        None => (rest, None),
        Some((end, _)) => (&rest[..end], Some(text_from + end)),
    }
}

/// The last part of a text that fits into `max` bytes of JSON, with a note about the rest.
pub fn tail(text: &str, max: usize) -> String {
    let mut room = max;
    let mut chars = text.char_indices().rev();
    match chars.find(|&(_, c)| !take(&mut room, cost(c))) {
        None => text.to_owned(),
        Some((at, c)) => {
            let shown = &text[at + c.len_utf8()..];
            let (length, all) = (shown.len(), text.len());
            format!("[cut: last {length} of {all} bytes shown]\n{shown}")
        }
    }
}

/// The last lines of a text that take at most `max` bytes of a tool result, which holds them twice: as
/// a string of the structured content, and as that JSON within the text content.
pub fn newest_lines(text: &str, max: usize) -> &str {
    let mut room = max;
    let mut start = text.len();
    for line in text.split_inclusive('\n').rev() {
        let json = serde_json::to_string(line).unwrap_or_default();
        let again = serde_json::to_string(&json).unwrap_or_default();
        // Without the quotes, which are needed only once for the whole text.
        if !take(&mut room, (json.len() + again.len()).saturating_sub(8)) {
            break;
        }
        start -= line.len();
    }
    &text[start..]
}

/// The first `max` items and, if there are more, a line with their number.
pub fn truncate_list(items: impl IntoIterator<Item = String>, max: usize) -> Vec<String> {
    let mut items = items.into_iter();
    let mut shown: Vec<String> = items.by_ref().take(max).collect();
    match items.count() {
        0 => {}
        more => shown.push(format!("and {more} more")),
    }
    shown
}

/// The rows that fit into a response.
#[derive(Debug, PartialEq, Eq)]
pub struct Fitting<T> {
    /// The rows, in their order.
    pub rows: Vec<T>,
    /// The number of rows that do not fit.
    pub omitted: usize,
}

/// Returns the first rows that fit into `max` bytes of JSON.
pub fn fitting<T: Serialize>(rows: Vec<T>, max: usize) -> Fitting<T> {
    let mut room = max;
    let count = rows.len();
    let fits = |row: &T| {
        let json = serde_json::to_string(row);
        take(&mut room, json.map_or(usize::MAX, |json| json.len() + 1))
    };
    let rows: Vec<T> = rows.into_iter().take_while(fits).collect();
    let omitted = count - rows.len();
    Fitting { rows, omitted }
}

/// Takes `needed` from the room; returns false if there is less.
fn take(room: &mut usize, needed: usize) -> bool {
    let left = room.checked_sub(needed);
    *room = left.unwrap_or(*room);
    left.is_some()
}

/// The bytes of a character in JSON: escape sequences cost up to six times their length.
fn cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c.is_ascii_control() => 6,
        c => c.len_utf8(),
    }
}

/// Returns `bytes` in hexadecimal digits, in lower case.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_whole_text() {
        let text = "aé\u{1f980}\n\"b".repeat(30);
        for max in [1, 2, 3, 4, 7, 50, 1_000] {
            let (mut whole, mut next) = (String::new(), Some(0));
            while let Some(offset) = next {
                let (shown, rest) = page(&text, offset, max);
                assert!(!shown.is_empty() && rest != next);
                whole.push_str(shown);
                next = rest;
            }
            assert_eq!(whole, text, "{max}");
        }
        // An offset within a character shows that character.
        assert_eq!(page("é", 1, 9), ("é", None));
        assert_eq!(page("é", 7, 9), ("", None));
    }

    #[test]
    fn truncation_is_marked() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöü", 2), "äö…");
        assert_eq!(first_line("äöü\nx", 2), "äö…");
        assert_eq!(first_line("", 2), "");
    }

    #[test]
    fn one_line_collapses_white_space() {
        assert_eq!(one_line(" a\tb\r\n\u{1b}[0m c ", 80), "a b [0m c");
        assert_eq!(one_line("aä bä cä", 4), "aä b…");
        assert_eq!(one_line(&"😀 ".repeat(9), 3), "😀 😀…");
        assert_eq!(one_line("", 4), "");
    }

    #[test]
    fn heads_and_tails_note_their_size() {
        assert_eq!(head("short", 5), "short");
        assert_eq!(head("äöü", 3), "ä\n[cut: 2 of 6 bytes shown]");
        assert_eq!(tail("short", 9), "short");
        assert_eq!(tail("äöü", 3), "[cut: last 2 of 6 bytes shown]\nü");
        assert_eq!(head("\u{1b}\u{1b}", 8), "\u{1b}\n[cut: 1 of 2 bytes shown]");
        assert_eq!(tail("\"\"", 4), "\"\"");
    }

    #[test]
    fn newest_lines_are_complete_lines() {
        let text = "one\ntwo\nthree\n";
        // "three\n" is 7 bytes of JSON, and 8 of JSON in JSON.
        assert_eq!(newest_lines(text, 14), "");
        assert_eq!(newest_lines(text, 15), "three\n");
        assert_eq!(newest_lines(text, 1000), text);
        assert_eq!(newest_lines("", 0), "");
    }

    #[test]
    fn truncated_lists_note_the_number_of_other_items() {
        let items = || ["a", "b", "c"].map(str::to_owned);
        assert_eq!(truncate_list(items(), 3), items());
        assert_eq!(truncate_list(items(), 1), ["a", "and 2 more"]);
        let Fitting { rows, omitted } = fitting(vec![1, 22, 3], 5);
        assert_eq!((rows, omitted), (vec![1, 22], 1));
    }
}
