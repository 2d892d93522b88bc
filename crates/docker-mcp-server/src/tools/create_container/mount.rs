//! Mounts in the syntax of `docker run -v`.

use std::fmt;

use serde::Deserialize;

use crate::engine::ObjectName;

/// `source:/path[:ro]`, where the source is a volume or a path of the host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) struct MountSpec(String);

impl MountSpec {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (source, target) = (parts.next()?, parts.next()?);
        // The engine has more options; they affect the host.
        let is_known = matches!(
            (parts.next(), parts.next()),
            (None | Some("ro" | "rw"), None)
        );
        let is_source = source.starts_with('/') || ObjectName::new(source).is_ok();
        let plain = !text.contains(['\0', '\n', ',']);
        (is_known && is_source && plain && target.starts_with('/')).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for MountSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for MountSpec {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a mount: write `volume:/path` or `/host/path:/path:ro`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_have_a_source_and_a_path() {
        for text in [
            "data:/data",
            "data:/data:ro",
            "/srv/x:/data:ro",
            "/srv/x:/y:rw",
        ] {
            assert!(MountSpec::parse(text).is_some(), "{text}");
        }
        let invalid =
            " data data: data:rel ./x:/y ../x:/y ~:/y x:/y:z x:/y:ro:Z \\x:/y x:/y:ro,rshared";
        for text in invalid.split(' ') {
            assert!(MountSpec::parse(text).is_none(), "{text}");
        }
    }
}
