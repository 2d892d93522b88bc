//! Ids that n8n generates and that callers pass back.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longer than any id of n8n.
const MAX_ID_LEN: usize = 64;

/// The id of any object of n8n. It becomes a segment of a URL's path, so everything else is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
// In schemas of tools the name of the field says it.
#[schemars(inline, description = "", extend("pattern" = "^[A-Za-z0-9_-]{1,64}$"))]
pub struct Id(String);

impl Id {
    /// The id as n8n writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let legal = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        if (1..=MAX_ID_LEN).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text))
        } else {
            Err("not an id: ids have 1 to 64 letters, digits, `_` and `-`")
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_than_an_id_is_rejected() {
        for good in ["1", "qpV29wYOxKvr20R4", "a_b-c", &"x".repeat(64)] {
            assert_eq!(Id::try_from(good.to_owned()).unwrap().as_str(), good);
        }
        let long = "x".repeat(65);
        for bad in ["", "../1", "1/2", "1%2f", "1?a=b", "ä", "1 2", "1\n", &long] {
            assert!(Id::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
