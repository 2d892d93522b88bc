//! Mounts, as `docker run -v` takes them.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::name::ObjectName;

/// `source:/path[:ro]`, where the source is a volume or a path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount(String);

impl Mount {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (source, target) = (parts.next()?, parts.next()?);
        // The engine knows more options; those concern the host.
        let is_known = matches!(
            (parts.next(), parts.next()),
            (None | Some("ro" | "rw"), None)
        );
        let is_source = source.starts_with('/') || ObjectName::new(source).is_ok();
        let plain = !text.contains(['\0', '\n', ',']);
        (is_known && is_source && plain && target.starts_with('/')).then(|| Self(text.to_owned()))
    }

    /// The path of the host that it mounts.
    pub(super) fn host_path(&self) -> Option<&str> {
        let source = self.0.split(':').next()?;
        source.starts_with('/').then_some(source)
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Mount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom("not a mount: write `volume:/path` or `/host/path:/path:ro`")
        })
    }
}

impl JsonSchema for Mount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Mount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_host_is_told_from_a_volume() {
        let path = |text| Mount::parse(text).unwrap().host_path().map(str::to_owned);
        assert_eq!(path("data:/data"), None);
        assert_eq!(path("/srv/x:/data:ro").as_deref(), Some("/srv/x"));
        for text in [
            "",
            "data",
            "data:",
            "data:rel",
            "./x:/y",
            "../x:/y",
            "~:/y",
            "x:/y:z",
            "x:/y:ro:Z",
            "\\x:/y",
            "x:/y:ro,rshared",
        ] {
            assert!(Mount::parse(text).is_none(), "{text}");
        }
    }
}
