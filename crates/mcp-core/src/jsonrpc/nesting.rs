//! The depth of JSON that is passed on unread.

use memchr::memchr2;

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
    let (mut depth, mut rest) = (0_usize, json.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(rest),
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

/// Returns what follows the string whose first quote is before `rest`. Large results are mostly text.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_end = rest[at] == b'"';
        let length = if is_end { 1 } else { 2 };
        rest = rest.get(at + length..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
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
