//! Tables of phrases, each with the problem that it means: `signs.txt` and `messages.txt`.
//!
//! A phrase matches whole words: `enfile` is not a part of `tokenfile`. With `*` at its begin or end it also matches
//! there within a word.

use super::finding::{Cause, parsed};

/// A row: a cause and the phrases that mean it.
pub(super) struct Row {
    pub(super) cause: Cause,
    /// Groups separated by ` & `, of which all must match; of the phrases of a group, separated by `|`, one.
    phrases: &'static str,
    pub(super) text: &'static str,
    pub(super) next: &'static str,
}

impl Row {
    /// The rows of a table: blocks of four lines, and comments. A test checks that all are valid.
    pub(super) fn parse(table: &'static str) -> Vec<Self> {
        let blocks = table.split("\n\n").filter(|block| !block.starts_with('#'));
        let row = |block: &'static str| {
            let mut lines = block.lines();
            Some(Self {
                cause: parsed(lines.next()?)?,
                phrases: lines.next()?,
                text: lines.next()?,
                next: lines.next()?,
            })
        };
        blocks.filter_map(row).collect()
    }

    /// Whether a text in lower case has its phrases.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.phrases.split(" & ").all(|group| has(text, group))
    }
}

/// Whether the text contains one of the phrases, as whole words.
pub(super) fn has(text: &str, phrases: &str) -> bool {
    phrases.split('|').any(|phrase| contains(text, phrase))
}

fn contains(text: &str, phrase: &str) -> bool {
    let (bare, open_begin) = phrase
        .strip_prefix('*')
        .map_or((phrase, false), |rest| (rest, true));
    let (bare, open_end) = bare
        .strip_suffix('*')
        .map_or((bare, false), |rest| (rest, true));
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let begins_word = is_word(bare.chars().next()) && !open_begin;
    let ends_word = is_word(bare.chars().next_back()) && !open_end;
    let mut found = text.match_indices(bare);
    found.any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + bare.len()..]);
        let goes_on_before = begins_word && is_word(before.chars().next_back());
        let goes_on_after = ends_word && is_word(after.chars().next());
        !goes_on_before && !goes_on_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_match_whole_words() {
        for (text, phrase, expected) in [
            ("getaddrinfo enotfound db", "enotfound", true),
            ("modulenotfounderror: x", "enotfound", false),
            ("(enfile)", "enfile", true),
            ("tokenfile", "enfile", false),
            ("x_enfile", "enfile", false),
            ("tokenfile enfile", "enfile", true),
            ("unknownhostexception", "unknownhost*", true),
            ("javaunknownhost", "unknownhost*", false),
            ("runtimeerror: x", "*error*", true),
            ("required by /app", "required by /", true),
            ("größe: größer", "größe", true),
            ("größer", "größe", false),
            ("", "a", false),
        ] {
            assert_eq!(contains(text, phrase), expected, "{text} {phrase}");
        }
    }

    #[test]
    fn all_rows_are_valid() {
        for table in [include_str!("signs.txt"), include_str!("messages.txt")] {
            let rows = Row::parse(table);
            assert_eq!(rows.len() + 1, table.split("\n\n").count());
            for row in rows {
                assert_eq!(row.phrases, row.phrases.to_lowercase());
                assert!(
                    row.text.len() > 5 && row.next.ends_with('.'),
                    "{}",
                    row.text
                );
            }
        }
    }
}
