//! Request paths: made of fixed words, checked names and encoded values.
//!
//! A path is put together from our own words, from identifiers whose types have checked them, and
//! from query values, which are encoded. So there is no way from a caller's text to another
//! endpoint.

use std::fmt::{Display, Write as _};

use http::Uri;
use http::uri::PathAndQuery;

use crate::engine::error::EngineError;
use crate::engine::name::{ContainerName, Name, NameSyntax};

#[derive(Clone, Debug)]
pub(crate) struct Path {
    text: String,
    has_query: bool,
}

impl Path {
    /// Starts a path with a fixed word: `/containers`.
    pub(crate) fn to(fixed: &'static str) -> Self {
        Self {
            text: fixed.to_owned(),
            has_query: false,
        }
    }

    /// The path of a container, or of what it has: `/json`.
    pub(crate) fn container(id: &ContainerName, fixed: &'static str) -> Self {
        Self::to("/containers").id(id).then(fixed)
    }

    /// Appends the identifier of an object.
    pub(crate) fn id(mut self, id: &Name<impl NameSyntax>) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "/{id}");
        self
    }

    /// Appends a fixed word: `/json`.
    pub(crate) fn then(mut self, fixed: &'static str) -> Self {
        self.text.push_str(fixed);
        self
    }

    /// Adds a parameter with any value, which is encoded.
    pub(crate) fn query(mut self, key: &'static str, value: impl Display) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(key);
        self.text.push('=');
        for byte in value.to_string().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    self.text.push(byte.into());
                }
                _ => {
                    let _ = write!(self.text, "%{byte:02X}");
                }
            }
        }
        self
    }

    pub(crate) fn into_uri(self) -> Result<Uri, EngineError> {
        let path = PathAndQuery::try_from(self.text);
        path.map(Uri::from).map_err(EngineError::unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_path_are_encoded() {
        let name = ContainerName::new("web").unwrap();
        let path = Path::container(&name, "/kill")
            .query("signal", "a&b=/../?#\n%")
            .query("n", 1);
        assert_eq!(
            path.into_uri().unwrap().to_string(),
            "/containers/web/kill?signal=a%26b%3D%2F..%2F%3F%23%0A%25&n=1"
        );
    }
}
