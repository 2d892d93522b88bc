//! Mounts in the syntax of `docker run -v`.

use std::fmt;

use serde::Deserialize;

use crate::name::ObjectName;

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

    /// The path of the host that it mounts.
    pub(super) fn host_path(&self) -> Option<&str> {
        let source = self.0.split(':').next()?;
        source.starts_with('/').then_some(source)
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
    fn host_paths_and_volumes_are_distinguished() {
        let path = |text| {
            MountSpec::parse(text)
                .unwrap()
                .host_path()
                .map(str::to_owned)
        };
        assert_eq!(path("data:/data"), None);
        assert_eq!(path("/srv/x:/data:ro").as_deref(), Some("/srv/x"));
        let invalid =
            " data data: data:rel ./x:/y ../x:/y ~:/y x:/y:z x:/y:ro:Z \\x:/y x:/y:ro,rshared";
        for text in invalid.split(' ') {
            assert!(MountSpec::parse(text).is_none(), "{text}");
        }
    }
}
