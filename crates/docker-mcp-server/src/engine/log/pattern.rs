//! Search patterns for log lines.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

/// Most memory that a compiled expression may take, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Longest expression, in bytes: a compiled one takes about a thousand times as much.
const MAX_PATTERN_BYTES: usize = 1_000;

/// A regular expression. Matching always takes linear time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn is_match(&self, line: &str) -> bool {
        self.0.is_match(line)
    }
}

impl TryFrom<String> for Pattern {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err("too long: a pattern has at most 1,000 bytes");
        }
        let built = RegexBuilder::new(&text)
            .case_insensitive(true)
            .size_limit(MAX_COMPILED_BYTES)
            .build();
        built
            .map(Self)
            .map_err(|_| "not a regular expression (escape . * + ? ( ) [ ] { } | ^ $ with \\)")
    }
}
