//! Request ids, kept as the bytes that the peer wrote.

use serde_json::value::RawValue;

/// The id of a request: a string or an integer, echoed byte for byte.
///
/// JSON-RPC discourages fractions and MCP forbids `null`, so those, booleans, arrays and objects
/// are refused by [`Id::new`]. An integer may have any number of digits: it is never parsed.
#[derive(Clone, Copy, Debug)]
pub struct Id<'a>(&'a RawValue);

impl<'a> Id<'a> {
    /// Accepts a JSON string or a JSON integer; `None` for anything else.
    pub fn new(raw: &'a RawValue) -> Option<Self> {
        let text = raw.get();
        let legal = match text.as_bytes().first() {
            Some(b'"') => true,
            Some(b'-' | b'0'..=b'9') => !text.contains(['.', 'e', 'E']),
            _ => false,
        };
        legal.then_some(Self(raw))
    }

    /// The id as JSON text.
    pub fn as_json(&self) -> &'a str {
        self.0.get()
    }
}

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strings_and_integers_are_ids() {
        let accepts = |json: &&str| {
            let raw = RawValue::from_string((*json).to_owned()).unwrap();
            Id::new(&raw).is_some()
        };
        let long = "123456789012345678901234567890";
        let ids = ["1", "-7", "0", r#""""#, r#""a""#, r#""\u00e4""#, long];
        assert_eq!(ids.iter().find(|id| !accepts(id)), None);
        let others = ["null", "true", "1.0", "1e3", "1E3", "[]", "{}"];
        assert_eq!(others.iter().find(|id| accepts(id)), None);
    }

    #[test]
    fn ids_are_equal_as_they_were_written() {
        let json =
            ["1", "1", r#""1""#, "2"].map(|json| RawValue::from_string(json.into()).unwrap());
        let [one, same, text, two] = json.each_ref().map(|raw| Id::new(raw).unwrap());
        assert!(one == same && one != text && one != two);
    }
}
