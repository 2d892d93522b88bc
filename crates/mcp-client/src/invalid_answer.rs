//! Finds the request that an answer with invalid JSON belongs to.

use mcp_core::jsonrpc::Fault;

/// Words that serializers write although JSON does not have them: Python writes the first three,
/// hand-made JSON the others.
const FOREIGN_WORDS: [&str; 7] = [
    "NaN",
    "Infinity",
    "-Infinity",
    "None",
    "True",
    "False",
    "undefined",
];

/// An answer that cannot be decoded, as far as it can be read.
#[derive(Default)]
struct Outline {
    id: Option<u64>,
    /// It has `result` or `error` and no `method`.
    has_outcome: bool,
    has_method: bool,
    word: Option<&'static str>,
}

/// Returns the id of the request that `line` answers, and the fault in words; `None` if `line` is
/// something else, such as a log message.
pub(crate) fn find(line: &[u8], fault: &Fault) -> Option<(u64, String)> {
    let outline = Outline::read(line);
    let id = outline.id?;
    (outline.has_outcome && !outline.has_method).then(|| (id, outline.describe(fault)))
}

impl Outline {
    /// Reads the names of the top object, whatever the values are.
    fn read(line: &[u8]) -> Self {
        let mut outline = Self::default();
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(&byte) = line.get(at) {
            let start = at;
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    at = string_end(line, at);
                    let rest = line.get(at..).unwrap_or_default().trim_ascii_start();
                    if let (1, Some(value)) = (depth, rest.strip_prefix(b":")) {
                        outline.member(&line[start..at], value.trim_ascii_start());
                    }
                }
                b'-' | b'a'..=b'z' | b'A'..=b'Z' => {
                    while line.get(at).is_some_and(u8::is_ascii_alphanumeric) {
                        at += 1;
                    }
                    let mut words = FOREIGN_WORDS.into_iter();
                    let found = words.find(|word| word.as_bytes() == &line[start..at]);
                    outline.word = outline.word.or(found);
                }
                _ => {}
            }
        }
        outline
    }

    fn member(&mut self, name: &[u8], value: &[u8]) {
        match name {
            br#""id""# => {
                let end = value.iter().position(|byte| !byte.is_ascii_digit());
                let digits = std::str::from_utf8(&value[..end.unwrap_or(value.len())]);
                let id = digits.ok().and_then(|digits| digits.parse().ok());
                self.id = self.id.or(id);
            }
            br#""method""# => self.has_method = true,
            br#""result""# | br#""error""# => self.has_outcome = true,
            _ => {}
        }
    }

    fn describe(&self, fault: &Fault) -> String {
        match (self.word, fault) {
            (Some(word), Fault::NotJson(_)) => format!("invalid JSON: {word} is not a JSON value"),
            (None, Fault::NotJson(detail)) => format!("invalid JSON: {detail}"),
            (_, fault) => format!("an invalid JSON-RPC message: {fault}"),
        }
    }
}

/// Returns the position after the string that starts before `at`.
fn string_end(line: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = line.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use mcp_core::jsonrpc::Frame;

    use super::*;

    fn found(line: &str) -> Option<(u64, String)> {
        let error = Frame::decode(line.as_bytes()).unwrap_err();
        find(line.as_bytes(), &error.fault)
    }

    #[test]
    fn answer_is_attributed_and_its_fault_named() {
        for (line, id, fault) in [
            (
                r#"{"jsonrpc":"2.0","id":5,"result":{"a":NaN}}"#,
                5,
                "NaN is not",
            ),
            (
                r#"{"result":[-Infinity],"id" : 12, "jsonrpc":"2.0"}"#,
                12,
                "-Infinity is not",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"id":7,"a":tru}}"#,
                1,
                "at line 1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"message":"a \"NaN\"#,
                1,
                "EOF",
            ),
            (
                "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
                1,
                "expected value",
            ),
            (
                r#"{"id":1,"result":{}}"#,
                1,
                "Missing required field: jsonrpc",
            ),
        ] {
            let (found, text) = found(line).unwrap();
            assert_eq!(found, id, "{line}");
            assert!(text.contains(fault), "{text}");
        }
        for other in [
            "Server is ready: \"id\":5, \"result\"",
            r#"{"id":5,"level":"info"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"result":NaN}}"#,
            r#"{"jsonrpc":"2.0","result":NaN}"#,
            r#"{"jsonrpc":"2.0","id":"5","result":NaN}"#,
            r#"{"a":{"id":5,"result":NaN}}"#,
            "\"",
            "\\",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
