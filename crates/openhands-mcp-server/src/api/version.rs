//! The version of an agent server, and what differs between versions.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::api::event_kind;

/// The oldest and the newest version with which all tests pass.
const OLDEST_TESTED: [u32; 3] = [1, 30, 0];
const NEWEST_TESTED: [u32; 2] = [1, 58];

/// The module of each kind of event. It is the same in all tested versions.
const MODULES: [(&str, &[&str]); 6] = [
    ("llm_convertible.action", &[event_kind::ACTION]),
    ("llm_convertible.message", &[event_kind::MESSAGE]),
    (
        "llm_convertible.observation",
        &[
            event_kind::OBSERVATION,
            event_kind::TOOL_ERROR,
            event_kind::REJECTION,
        ],
    ),
    ("conversation_state", &[event_kind::STATE]),
    ("conversation_error", &[event_kind::RUN_ERROR]),
    ("user_action", &[event_kind::PAUSED, event_kind::INTERRUPT]),
];

/// The version that an agent server reports; `None` if it reports none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerVersion(Option<String>);

impl ServerVersion {
    pub(crate) fn new(reported: Option<String>) -> Self {
        Self(reported)
    }

    /// Its three numbers.
    fn release(&self) -> Option<[u32; 3]> {
        let mut parts = self.0.as_ref()?.splitn(3, '.');
        let mut number = || parts.next()?.parse().ok();
        let (major, minor) = (number()?, number()?);
        // The last may have a suffix.
        Some([major, minor, number().unwrap_or(0)])
    }

    /// Says that this version is not tested, or what tasks lack there.
    pub(crate) fn warning(&self) -> Option<String> {
        let is_tested =
            |release: [u32; 3]| release >= OLDEST_TESTED && release[..2] <= NEWEST_TESTED[..];
        let mut warning = format!("The agent server has {self}");
        if !self.release().is_some_and(is_tested) {
            let ([major, minor, patch], [_, newest]) = (OLDEST_TESTED, NEWEST_TESTED);
            warning += &format!(
                "; this server is tested with {major}.{minor}.{patch} to {major}.{newest}"
            );
        } else if self.has_tools_in_profiles() {
            return None;
        }
        if !self.has_tools_in_profiles() {
            warning += ". Before 1.31.2 tasks have the standard tools, and of their agent's profile its model and \
                        instructions, not its skills and MCP servers";
        }
        Some(warning + ".")
    }

    /// Returns true if the agent of an agent profile has tools: not up to 1.31.1.
    pub(crate) fn has_tools_in_profiles(&self) -> bool {
        let oldest = [1, 31, 2];
        self.release().is_none_or(|release| release >= oldest)
    }

    /// Returns true if tasks start although an MCP server of theirs is down: not up to 1.34 at least, but in
    /// 1.58.
    pub(crate) fn ignores_dead_servers(&self) -> bool {
        let is_newest = |release: [u32; 3]| release[..2] >= NEWEST_TESTED[..];
        self.release().is_some_and(is_newest)
    }

    /// The name by which this version filters events of `kind`. Up to 1.46 at least it compares the
    /// whole name of the class, 1.58 knows both, and only the short name is documented.
    pub(crate) fn kind_filter(&self, kind: &str) -> String {
        let is_newer = self
            .release()
            .is_some_and(|release| release[..2] > NEWEST_TESTED[..]);
        let module = MODULES.iter().find(|(_, kinds)| kinds.contains(&kind));
        match module {
            Some((module, _)) if !is_newer => format!("openhands.sdk.event.{module}.{kind}"),
            _ => kind.to_owned(),
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(version) => write!(f, "version {}", upstream::text::one_line(version, 40)),
            None => f.write_str("an unknown version"),
        }
    }
}

/// The version that was read last; `None` before.
#[derive(Debug, Default)]
pub(crate) struct KnownVersion(Mutex<Option<ServerVersion>>);

impl KnownVersion {
    pub(crate) fn get(&self) -> Option<ServerVersion> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    pub(crate) fn set(&self, version: &ServerVersion) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != Some(version) {
            match version.warning() {
                Some(warning) => tracing::warn!("{warning}"),
                None => tracing::debug!(%version, "the agent server answers"),
            }
            *known = Some(version.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_that_the_version_knows() {
        let version = |text: &str| ServerVersion(Some(text.into()));
        let full = "openhands.sdk.event.user_action.PauseEvent";
        for (text, name, is_tested) in [
            ("1.31.2", full, true),
            ("1.29.9", full, false),
            ("1.58.3", full, true),
            ("1.59.0", "PauseEvent", false),
            ("2.0.0", "PauseEvent", false),
            ("unknown", full, false),
        ] {
            assert_eq!(version(text).kind_filter("PauseEvent"), name, "{text}");
            assert_eq!(version(text).warning().is_none(), is_tested, "{text}");
        }
        assert!(version("1.58.2").ignores_dead_servers());
        assert!(!version("1.34.0").ignores_dead_servers());
        assert!(version("1.31.2").has_tools_in_profiles());
        assert!(!version("1.31.1").has_tools_in_profiles());
        let old = version("1.30.0").warning().unwrap();
        assert!(old.contains("not its skills and MCP servers"), "{old}");
        assert!(!old.contains("tested"), "{old}");
        let newer = version("1.59.0").warning().unwrap();
        assert!(newer.contains("version 1.59.0; this server is tested with 1.30.0 to 1.58."));
        assert!(ServerVersion(None).warning().unwrap().contains("unknown"));
    }
}
