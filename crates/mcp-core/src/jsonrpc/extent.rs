//! The ends and the depth of values in JSON that was read before: their bytes are skipped, not checked again, which is
//! four fifths of the work of a parser. In other text the ends are anywhere, but inside of it.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use super::string::string;

/// Returns the JSON of the first member `name` of an object, which was checked before.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut members = members(object)?;
    members.find(|(key, _)| key == name).map(|(_, json)| json)
}

/// The names and the JSON of the members of an object, which was checked before; `None` if it is no object.
pub fn members(object: &str) -> Option<impl Iterator<Item = (Cow<'_, str>, &str)>> {
    let member = |(name, value): (Range<usize>, Range<usize>)| {
        let name = match &object[name] {
            escaped if escaped.contains('\\') => string(escaped)?,
            quoted => Cow::Borrowed(&quoted[1..quoted.len() - 1]),
        };
        Some((name, &object[value]))
    };
    MemberPlaces::new(object).map(|places| places.filter_map(member))
}

/// The places of the members of an object, in order: of each name, with its quotes, and of its value.
pub(super) struct MemberPlaces<'a> {
    object: &'a str,
    /// The index of the next name; `None` at the end.
    next: Option<usize>,
    /// The index behind the object, once it was reached.
    end: Option<usize>,
    /// The depth of the deepest value that was passed.
    depth: usize,
}

impl<'a> MemberPlaces<'a> {
    /// The places in `object`; `None` if it is no object.
    pub(super) fn new(object: &'a str) -> Option<Self> {
        let json = object.as_bytes();
        let first = after(json, b'{', 0)?;
        let is_empty = json.get(first) == Some(&b'}');
        Some(Self {
            object,
            next: (!is_empty).then_some(first),
            end: is_empty.then_some(first + 1),
            depth: 0,
        })
    }

    /// The levels of the object as far as it was read: its own, and those of its deepest value.
    pub(super) fn depth(&self) -> usize {
        1 + self.depth
    }

    /// True once all were found, and the object ends where the text does.
    pub(super) fn are_complete(&self) -> bool {
        let json = self.object.as_bytes();
        self.end
            .is_some_and(|end| space_end(json, end) == json.len())
    }
}

impl Iterator for MemberPlaces<'_> {
    type Item = (Range<usize>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let json = self.object.as_bytes();
        let start = self.next.take()?;
        let name = start..string_end(json, start);
        let start = after(json, b':', name.end)?;
        let (end, depth) = value_end(json, start);
        let value = start..end;
        self.depth = self.depth.max(depth);
        let end = space_end(json, value.end);
        match json.get(end)? {
            _ if json[name.start] != b'"' || value.is_empty() => return None,
            b',' => self.next = Some(space_end(json, end + 1)),
            b'}' => self.end = Some(end + 1),
            _ => return None,
        }
        Some((name, value))
    }
}

/// Returns the index behind this byte and the white space around it; `None` if another byte is at `at`.
fn after(json: &[u8], byte: u8, at: usize) -> Option<usize> {
    let at = space_end(json, at);
    (json.get(at) == Some(&byte)).then(|| space_end(json, at + 1))
}

/// Returns the index behind the white space at `at`.
fn space_end(json: &[u8], at: usize) -> usize {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let rest = json.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_space(byte)).count()
}

/// Returns the index behind the string whose first quote is at `at`.
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

/// Returns the levels of arrays and objects in this JSON.
pub(super) fn depth(json: &str) -> usize {
    let json = json.as_bytes();
    let (_, depth) = value_end(json, space_end(json, 0));
    depth
}

/// Returns the index behind the value that begins at `at`, and its levels of arrays and objects.
fn value_end(json: &[u8], at: usize) -> (usize, usize) {
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
    match json.get(at) {
        Some(b'"') => (string_end(json, at), 0),
        Some(b'{' | b'[') => container_end(json, at),
        _ => {
            let rest = json.get(at..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| !is_end(byte)).count();
            (at + length, 0)
        }
    }
}

fn container_end(json: &[u8], mut at: usize) -> (usize, usize) {
    let (mut depth, mut deepest) = (0_usize, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => {
                at = string_end(json, at);
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    (at, deepest)
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
                let (end, _) = value_end(json.as_bytes(), 1);
                assert_eq!(end, 1 + value.len(), "{json}");
            }
        }
        assert_eq!(space_end(b" \t\r\n1", 0), 4);
    }

    #[test]
    fn member_is_found_by_its_name() {
        let object = r#" { "a\"" : {"b":1}, "b" : [ 2 ] ,"c":"d", "\u0065":3} "#;
        for (name, value) in [
            ("a\"", Some(r#"{"b":1}"#)),
            ("b", Some("[ 2 ]")),
            ("c", Some(r#""d""#)),
            ("e", Some("3")),
            ("d", None),
        ] {
            assert_eq!(member(object, name), value, "{name}");
        }
        for none in ["{}", "[]", "", r#"["b"]"#, r#"{"a":{"b":1}}"#] {
            assert_eq!(member(none, "b"), None, "{none}");
        }
    }

    #[test]
    fn text_that_is_cut_off_ends_at_its_end() {
        let json = br#"{"a":["\"\\",{"b":[1,"c"]}]}"#;
        for length in 0..json.len() {
            let cut = &json[..length];
            assert_eq!(value_end(cut, 0).0, length);
            assert_eq!(value_end(cut, length + 3).0, length + 3);
        }
        assert_eq!(string_end(b"\"\\", 0), 2);
    }
}
