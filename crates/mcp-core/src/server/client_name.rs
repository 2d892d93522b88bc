//! The name that a client gives itself.

use std::fmt;

/// Limit for its bytes. Each session id has it.
const MAX_BYTES: usize = 40;

/// The name that a client gives itself, such as `claude-code`, or the start of it; empty if it gives none. Anybody can
/// give any name.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientName {
    length: u8,
    bytes: [[u8; 8]; MAX_BYTES / 8],
}

impl ClientName {
    /// The name of a client that gives none.
    pub const NONE: Self = Self {
        length: 0,
        bytes: [[0; 8]; MAX_BYTES / 8],
    };

    /// The printable part of `text`, up to the limit.
    pub fn new(text: &str) -> Self {
        let mut name = Self::default();
        for char in text.trim().chars().filter(|char| !char.is_control()) {
            let at = usize::from(name.length);
            let end = at + char.len_utf8();
            let Some(room) = name.bytes.as_flattened_mut().get_mut(at..end) else {
                break;
            };
            char.encode_utf8(room);
            name.length += char.len_utf8() as u8;
        }
        name
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.as_flattened().get(..usize::from(self.length));
        bytes
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl fmt::Debug for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_printable_start_of_a_text() {
        let long = "ä".repeat(30);
        for (text, expected) in [
            (" claude-code\n", "claude-code"),
            ("a\u{1b}[31mb", "a[31mb"),
            ("", ""),
            (&*long, &long[..40]),
        ] {
            assert_eq!(ClientName::new(text).as_str(), expected);
        }
    }
}
