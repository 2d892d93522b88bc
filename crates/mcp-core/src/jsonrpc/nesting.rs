//! The depth of JSON that is passed on unread.

use super::extent::string_end;

/// Deepest nesting of what a gateway passes on. Deeper JSON kills clients and servers whose parsers recurse:
/// 1,000 levels are a `RecursionError` in Python.
pub const MAX_NESTING: usize = 64;

/// Returns true if valid JSON is nested deeper than [`MAX_NESTING`].
pub fn is_too_deep(json: &str) -> bool {
    // Enough for most messages. Counted in bytes, since wider sums are not vectorised: 9 instructions for each byte.
    let opening = |byte: &u8| u8::from(matches!(byte, b'[' | b'{'));
    let count = |part: &[u8]| part.iter().map(opening).sum::<u8>();
    let parts = json.as_bytes().chunks(usize::from(u8::MAX));
    if parts.map(|part| usize::from(count(part))).sum::<usize>() <= MAX_NESTING {
        return false;
    }
    let (mut depth, mut at) = (0_usize, 0);
    let json = json.as_bytes();
    while let Some(byte) = json.get(at) {
        at = match byte {
            b'"' => string_end(json, at),
            _ => at + 1,
        };
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(&nested(MAX_NESTING)));
        assert!(is_too_deep(&nested(MAX_NESTING + 1)));
        // More brackets than levels.
        let beside = format!("[[],{}]", nested(MAX_NESTING - 1));
        assert!(!is_too_deep(&beside));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
        assert!(is_too_deep(&objects));
    }

    #[test]
    fn breadth_and_text_are_not() {
        assert!(!is_too_deep(&format!("[{}]", "[],{},".repeat(1000))));
        let text = "[{".repeat(1000);
        assert!(!is_too_deep(&format!(r#"["{text}","\"{text}\\"]"#)));
    }
}
