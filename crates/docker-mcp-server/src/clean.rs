//! Takes out of a text what a terminal would act on and a reader would not see.
//!
//! Container output is written by anybody: escape sequences cost tokens, and characters without a
//! shape can hide instructions or split a secret so that redaction misses it.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// `text` without escape sequences, control characters (but line feeds and tabs) and invisible
/// characters. Where a line was written over with carriage returns, what stood there last is kept.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut line = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            // Before the end of the line it is half of a Windows line end.
            '\r' if chars
                .peek()
                .is_some_and(|next| !matches!(next, '\n' | '\r')) =>
            {
                out.truncate(line);
            }
            '\n' => {
                out.push(c);
                line = out.len();
            }
            c if is_shown(c) => out.push(c),
            _ => {}
        }
    }
    Cow::Owned(out)
}

fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        c if c.is_control() => false,
        // Zero width, direction overrides, byte order mark, tags.
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => false,
        _ => true,
    }
}

/// What follows an escape character: a CSI sequence, a string that ends in BEL or ST, or one
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
                // A string that was never ended must not swallow the rest of the log.
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

/// Parameters and intermediates up to the final character.
fn skip_csi(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
    chars.next_if(|c| ('@'..='~').contains(c));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_left_alone() {
        for text in ["", "a\tb\nc", "Grüße 👍 — 漢字"] {
            assert!(matches!(clean(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn what_a_terminal_acts_on_is_gone() {
        let cases = [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://h\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never ended\nnext", "\nnext"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}=", "xy"),
            ("\u{9b}2Jx\u{0}\u{7}", "x"),
            ("10%\r50%\r100%\n", "100%\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("pass\u{200b}word\u{202e}", "password"),
            ("a\u{e0041}\u{feff}b", "ab"),
            ("\u{1b}", ""),
            ("\u{1b}[12", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }
}
