//! The ends of values in JSON that was read before: their bytes are skipped, not checked again, which is a quarter
//! of the work of a parser. In other text the ends are anywhere, but inside of it.

use memchr::memchr2;

/// Returns the index behind the white space at `at`.
pub(super) fn space_end(json: &[u8], at: usize) -> usize {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let rest = json.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_space(byte)).count()
}

/// Returns the index behind the string whose first quote is at `at`. Large results are mostly text.
pub(super) fn string_end(json: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found + 1;
        if json[at - 1] == b'"' {
            return at;
        }
        // The byte that is escaped.
        at += 1;
    }
    json.len()
}

/// Returns the index behind the value that begins at `at`.
pub(super) fn value_end(json: &[u8], at: usize) -> usize {
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
    match json.get(at) {
        Some(b'"') => string_end(json, at),
        Some(b'{' | b'[') => container_end(json, at),
        _ => {
            let rest = json.get(at..).unwrap_or_default();
            at + rest.iter().take_while(|byte| !is_end(byte)).count()
        }
    }
}

fn container_end(json: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = json.get(at) {
        at = match byte {
            b'"' => string_end(json, at),
            _ => at + 1,
        };
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_the_next_begins() {
        for value in [
            "1",
            "-1.5e+300",
            "true",
            "null",
            r#""""#,
            r#""a\"]}\\""#,
            r#""\u00e4\\\\""#,
            "[]",
            "{}",
            r#"[[1,"]"],{"}":[{}]}]"#,
            "{ \"a\" : [ 1 , 2 ] }",
        ] {
            for next in [",1", "}", "]", " ,", "\n}"] {
                let json = format!(" {value}{next}");
                assert_eq!(value_end(json.as_bytes(), 1), 1 + value.len(), "{json}");
            }
        }
        assert_eq!(space_end(b" \t\r\n1", 0), 4);
    }

    #[test]
    fn text_that_is_cut_off_ends_at_its_end() {
        let json = br#"{"a":["\"\\",{"b":[1,"c"]}]}"#;
        for length in 0..json.len() {
            let cut = &json[..length];
            assert_eq!(value_end(cut, 0), length);
            assert_eq!(value_end(cut, length + 3), length + 3);
        }
        assert_eq!(string_end(b"\"\\", 0), 2);
    }
}
