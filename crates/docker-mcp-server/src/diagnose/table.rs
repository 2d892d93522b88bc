//! Tables of phrases, each with the problem that it means: `signs.txt` and `messages.txt`.

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

/// Whether the text contains one of the phrases.
pub(super) fn has(text: &str, phrases: &str) -> bool {
    phrases.split('|').any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

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
