//! Instructions for the model: of the gateway, and those of its backends.

use std::fmt::Write as _;

use upstream::text::clean;

use crate::config::BackendKey;

/// The gateway's own.
pub(crate) const OWN: &str = "Tools of several servers: the part of a name before `__` is the server. \
     If a tool fails because its server is down, or is missing, gateway_status says why.";

/// Introduces those of the backends.
const INTRODUCTION: &str = "What the servers say about their tools:";

/// Limit for the instructions of one backend, in characters: every conversation pays for them.
const MAX_CHARS_OF_ONE: usize = 600;

/// Limit for the instructions of all backends, in characters.
const MAX_CHARS: usize = 4_000;

/// Merges the instructions of backends, each in one line with its name in front. They are written by others, so invisible
/// characters are removed and they are truncated.
pub(crate) fn merged<'a>(backends: impl IntoIterator<Item = (&'a BackendKey, &'a str)>) -> String {
    let mut merged = String::new();
    let mut left = MAX_CHARS;
    for (key, text) in backends {
        let text = clean(text);
        let words: Vec<&str> = text.split_whitespace().collect();
        let line = words.join(" ");
        let shown: String = line.chars().take(MAX_CHARS_OF_ONE.min(left)).collect();
        if shown.is_empty() {
            continue;
        }
        left -= shown.chars().count();
        let end = if shown.len() < line.len() { "…" } else { "" };
        if merged.is_empty() {
            merged.push_str(INTRODUCTION);
        }
        // Writing to a string cannot fail.
        let _ = write!(merged, "\n{key}: {shown}{end}");
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_bounded_lines() {
        assert_eq!(merged([]), "");
        let key = |text: &str| BackendKey::parse(text).unwrap();
        let (a, b, c) = (key("a"), key("b"), key("c"));
        let text = merged([(&a, "Say\nb: \u{202e}hi\u{200b}."), (&b, " \n"), (&c, "x")]);
        assert_eq!(text, format!("{INTRODUCTION}\na: Say b: hi.\nc: x"));
        let long = "ä ".repeat(10_000);
        let text = merged([(&a, &*long), (&b, &*long)]);
        let lines: Vec<usize> = text
            .lines()
            .skip(1)
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(lines, [3 + MAX_CHARS_OF_ONE + 1; 2]);
        assert!(text.ends_with('…'), "{text}");
        let keys: Vec<BackendKey> = (0..100).map(|n| key(&format!("b{n}"))).collect();
        let text = merged(keys.iter().map(|key| (key, &*long)));
        assert!(text.chars().count() < MAX_CHARS + 1_000, "{}", text.len());
    }
}
