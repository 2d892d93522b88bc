//! The depth of JSON that is passed on unread.

/// Deepest nesting of what a gateway passes on. Deeper JSON kills clients and servers whose parsers recurse:
/// 1,000 levels are a `RecursionError` in Python.
pub const MAX_NESTING: usize = 64;

/// Returns true if valid JSON is nested deeper than [`MAX_NESTING`].
pub fn is_too_deep(json: &str) -> bool {
    depth(json) > MAX_NESTING
}

/// The levels of arrays and objects in valid JSON.
pub(super) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                // To the end of the string.
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => _ = bytes.next(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::super::Members;
    use super::*;

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(&nested(MAX_NESTING)));
        assert!(is_too_deep(&nested(MAX_NESTING + 1)));
        let object = |depth| Members::read(&format!(r#"{{"a":1,"b":{},"c":[2]}}"#, nested(depth)));
        assert!(!object(MAX_NESTING - 1).unwrap().is_too_deep());
        assert!(object(MAX_NESTING).unwrap().is_too_deep());
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
