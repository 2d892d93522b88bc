//! Names of networks and volumes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{InvalidName, is_plain};

/// A network's name or id, or a volume's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ObjectName(String);

impl ObjectName {
    /// Checks `name` against `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, at most 255 characters.
    ///
    /// # Errors
    /// When anything else is in it.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        is_plain(name, 255)
            .then(|| Self(name.to_owned()))
            .ok_or(InvalidName::OBJECT)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ObjectName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for ObjectName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ObjectName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}
