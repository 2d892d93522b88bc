//! The version of the engine's API, which the path of each request names.

use std::fmt;
use std::str::FromStr;

use bollard::API_DEFAULT_VERSION;
use http::{Response, Uri};

use crate::engine::error::EngineError;

/// The header with the newest version that an engine knows. Docker and Podman write it into every reply.
const HEADER: &str = "api-version";
/// The requests that ask for the version. They have none.
const UNVERSIONED: [&str; 2] = ["/_ping", "/version"];

/// `1.41`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApiVersion {
    major: usize,
    minor: usize,
}

impl ApiVersion {
    /// The newest version whose replies this program has been written for.
    const NEWEST: Self = Self {
        major: API_DEFAULT_VERSION.major_version,
        minor: API_DEFAULT_VERSION.minor_version,
    };

    /// The version that the engine names in a reply.
    pub(super) fn named_by<T>(reply: &Response<T>) -> Option<Self> {
        let value = reply.headers().get(HEADER)?.to_str().ok()?;
        value.parse().ok()
    }

    /// Whether a request for this has a version.
    pub(super) fn is_named_in(target: &Uri) -> bool {
        !UNVERSIONED.contains(&target.path())
    }

    /// The path and the query of `target`, with the version to use with an engine of version `engine`. A service
    /// that names no version gets none.
    pub(super) fn name_in(target: &Uri, engine: Option<Self>) -> Result<Uri, EngineError> {
        // Only the path: an absolute URI is the form of a request to a proxy.
        let target = target.path_and_query().cloned();
        let target = target.map(Uri::from).unwrap_or_default();
        match engine {
            Some(engine) if Self::is_named_in(&target) => {
                let path = format!("/v{}{target}", engine.min(Self::NEWEST));
                path.parse().map_err(EngineError::unreadable)
            }
            _ => Ok(target),
        }
    }
}

impl FromStr for ApiVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once('.').ok_or(())?;
        let number = |digits: &str| digits.parse().map_err(drop);
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
        })
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_the_newest_version_that_both_know() {
        for (engine, target, expected) in [
            ("1.41", "/info", "/v1.41/info"),
            (
                "1.5",
                "/containers/json?all=1",
                "/v1.5/containers/json?all=1",
            ),
            (
                "1.54",
                "http://docker/images/a%2Fb/json",
                "/v1.53/images/a%2Fb/json",
            ),
            ("2.0", "/info", "/v1.53/info"),
            ("1.41", "/version", "/version"),
            ("1.41", "/_ping", "/_ping"),
            ("", "/info", "/info"),
            ("1.x", "/info", "/info"),
        ] {
            let reply = Response::builder().header("Api-Version", engine).body(());
            let engine = ApiVersion::named_by(&reply.unwrap());
            let named = ApiVersion::name_in(&target.parse().unwrap(), engine);
            assert_eq!(named.unwrap().to_string(), expected);
        }
    }
}
