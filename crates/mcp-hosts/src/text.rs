//! The text of a file without its byte order mark and with `\n` as line end, and the way back.

/// A text as an editor of its syntax reads it.
pub(crate) struct Plain<'a> {
    original: &'a str,
    /// Without byte order mark, with `\n` as line end.
    pub(crate) text: String,
}

const MARK: &str = "\u{feff}";

impl<'a> Plain<'a> {
    pub(crate) fn new(original: &'a str) -> Self {
        let text = original.strip_prefix(MARK).unwrap_or(original);
        Self {
            original,
            text: text.replace("\r\n", "\n"),
        }
    }

    /// Returns the original text with the change that leads from [`Plain::text`] to `edited`. All bytes outside
    /// of the change stay as they are; its line ends are those of most lines.
    pub(crate) fn with(&self, edited: &str) -> String {
        let change = Change::between(&self.text, edited);
        let (start, end) = (self.offset(change.start), self.offset(change.end));
        let returns = self.original.matches("\r\n").count();
        let lines = self.original.matches('\n').count();
        let new = match 2 * returns > lines {
            true => change.new.replace('\n', "\r\n"),
            false => change.new.to_owned(),
        };
        [&self.original[..start], &new, &self.original[end..]].concat()
    }

    /// Returns the offset in the original text after as many bytes of the plain text.
    fn offset(&self, plain: usize) -> usize {
        let original = self.original.as_bytes();
        let mut at = if self.original.starts_with(MARK) {
            MARK.len()
        } else {
            0
        };
        for _ in 0..plain {
            at += if original[at..].starts_with(b"\r\n") {
                2
            } else {
                1
            };
        }
        at
    }
}

/// The smallest part of a text that differs from another.
#[derive(Debug, PartialEq)]
pub(crate) struct Change<'a> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) new: &'a str,
}

impl<'a> Change<'a> {
    pub(crate) fn between(before: &str, after: &'a str) -> Self {
        let same = before.bytes().zip(after.bytes());
        let mut start = same.take_while(|(one, other)| one == other).count();
        while !before.is_char_boundary(start) || !after.is_char_boundary(start) {
            start -= 1;
        }
        let ends = before[start..].bytes().rev();
        let ends = ends.zip(after[start..].bytes().rev());
        let mut same = ends.take_while(|(one, other)| one == other).count();
        while !before.is_char_boundary(before.len() - same)
            || !after.is_char_boundary(after.len() - same)
        {
            same -= 1;
        }
        Self {
            start,
            end: before.len() - same,
            new: &after[start..after.len() - same],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_outside_of_a_change_stay() {
        for (original, edited, expected) in [
            ("a\nc\n", "a\nb\nc\n", "a\nb\nc\n"),
            ("a\r\nc\r\n", "a\nb\nc\n", "a\r\nb\r\nc\r\n"),
            ("\u{feff}a\r\nc", "a\nb\nc", "\u{feff}a\r\nb\r\nc"),
            // Mixed: those of most lines.
            ("a\nb\r\nc\r\n", "a\nb\nx\nc\n", "a\nb\r\nx\r\nc\r\n"),
            ("ä", "ö", "ö"),
            ("", "a\n", "a\n"),
            ("a\r\n", "", ""),
        ] {
            assert_eq!(Plain::new(original).with(edited), expected, "{original:?}");
        }
    }
}
