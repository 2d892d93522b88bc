//! Removes escape sequences and invisible characters.
//!
//! Anyone can write into logs and definitions: escape sequences cost tokens, and invisible characters
//! can hide instructions from people, or split a secret so that redaction misses it.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Removes escape sequences, control characters and invisible characters, but not line feeds and tabs. A NUL that ends a
/// word, as in `/proc/1/environ`, becomes a blank: without it a secret would be part of the word before it.
/// Of a line that was overwritten with carriage returns, versions with the same words (a progress bar) are reduced to
/// the last one. Others stay, and the carriage return between them is shown as `\r`: a container must not hide a line
/// by writing another one over it.
pub fn clean(text: &str) -> Cow<'_, str> {
    // The fast path for most texts.
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
        || !text.contains(|c| c == '\r' || is_invisible(c))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    // Begin of the characters since the last NUL: UTF-16 has one after each.
    let mut word = 0;
    while let Some(c) = chars.next() {
        match c {
            '\0' => {
                let is_word = out[word..].chars().nth(1).is_some();
                // A word of one character is followed by a longer one, which UTF-16 does not have.
                let mut ahead = chars.clone();
                let follows = ahead.next().is_some() && ahead.next().is_some_and(|c| c != '\0');
                let ends = is_word || out.len() > word && follows;
                out.extend(ends.then_some(' '));
                word = out.len();
            }
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            // Before a line feed it is part of a Windows line end.
            '\r' if matches!(chars.peek(), None | Some('\n' | '\r')) => {}
            c if is_invisible(c) => {}
            c => out.push(c),
        }
    }
    if out.contains('\r') {
        let lines: Vec<String> = out.split('\n').map(versions).collect();
        out = lines.join("\n");
    }
    Cow::Owned(out)
}

/// A line that was written over with carriage returns.
fn versions(line: &str) -> String {
    let words =
        |version: &str| -> String { version.chars().filter(|c| c.is_alphabetic()).collect() };
    let mut kept: Vec<&str> = Vec::new();
    for version in line
        .split('\r')
        .filter(|version| !version.trim().is_empty())
    {
        kept.pop_if(|before| words(before) == words(version));
        kept.push(version);
    }
    kept.join("\\r")
}

/// Returns true for characters that a model reads and no screen shows: control characters except
/// line ends and tabs, zero-width and direction marks, byte order marks, tags, variation selectors, fillers
/// and the separators of lines and paragraphs. Emoji lose their variation, which no reader misses.
pub fn is_invisible(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t')
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Shows characters that no screen shows, and blanks other than the usual one, by their number.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_odd_blank = c.is_whitespace() && !c.is_ascii();
        match is_invisible(c) || is_odd_blank || c == '\r' {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// Skips the rest of an escape sequence: a CSI sequence, a string that ends in BEL or ST, or one
/// character after any intermediates.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_csi(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next() {
                let terminated = c == '\u{1b}' && chars.next_if_eq(&'\\').is_some();
                // A string without an end must not swallow the rest of the log.
                if terminated || c == '\u{7}' || chars.peek() == Some(&'\n') {
                    break;
                }
            }
        }
        _ => {
            while chars.next_if(|c| (' '..='/').contains(c)).is_some() {}
            chars.next_if(|c| ('0'..='~').contains(c));
        }
    }
}

/// Skips parameters and intermediates up to the final character.
fn skip_csi(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
    chars.next_if(|c| ('@'..='~').contains(c));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_unchanged() {
        for text in ["", "a\tb\nc", "Grüße 👍 — 漢字"] {
            assert!(matches!(clean(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn invisible_characters_are_shown() {
        assert_eq!(visible("a\u{202e}b\u{e0041}"), "a\\u{202e}b\\u{e0041}");
        assert_eq!(visible("a b\tc\n\r\u{a0}"), "a b\tc\n\\u{d}\\u{a0}");
    }

    #[test]
    fn escape_sequences_and_invisible_characters_are_removed() {
        let cases = [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://h\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never ended\nnext", "\nnext"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}=", "xy"),
            ("\u{9b}2Jx\u{0}\u{7}", "x"),
            ("10%\r50%\r100%\n", "100%\n"),
            (
                "Pulling 1/2\rPulling 2/2\r          \rdone",
                "Pulling 2/2\\rdone",
            ),
            (
                "ERROR real problem\rall fine",
                "ERROR real problem\\rall fine",
            ),
            ("env: 'sh\r': No such file", "env: 'sh\\r': No such file"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("pass\u{200b}word\u{202e}", "password"),
            ("pass\u{ad}wo\u{200d}rd", "password"),
            // A command line of `/proc`, the same in UTF-16, and the hole at the beginning of a log that was cut.
            ("run\0--password\0x1\0", "run --password x1 "),
            ("r\0u\0n\0 \0x\0", "run x"),
            ("n\0e\0--token\0x1\0", "ne --token x1 "),
            ("run\0-n\0i\0--token\0x1\0", "run -n i --token x1 "),
            ("\0\0\0\0run\0\0\0it", "run it"),
            ("a\u{e0041}\u{feff}b", "ab"),
            ("a\u{fe0f}\u{e0101}\u{3164}\u{2800}\u{2028}\u{180e}b", "ab"),
            ("\u{1b}", ""),
            ("\u{1b}[12", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }
}
