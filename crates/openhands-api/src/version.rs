//! The version of an agent server, and what differs between versions.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::event_kind;

/// The oldest and the newest version that this server is tested with, without their last part.
const OLDEST_TESTED: (u32, u32) = (1, 30);
const NEWEST_TESTED: (u32, u32) = (1, 58);

/// The module of each kind of event. It is the same in all tested versions.
const MODULES: [(&str, &[&str]); 5] = [
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
    ("conversation_error", &[event_kind::RUN_ERROR]),
    ("user_action", &[event_kind::PAUSED, event_kind::INTERRUPT]),
];

/// The version that an agent server reports; `None` if it reports none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerVersion(Option<String>);

impl ServerVersion {
    pub(crate) fn new(reported: Option<String>) -> Self {
        Self(reported)
    }

    /// Its first two numbers.
    fn release(&self) -> Option<(u32, u32)> {
        let mut parts = self.0.as_ref()?.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }

    /// Says that this version is not tested; `None` if it is.
    pub fn warning(&self) -> Option<String> {
        let tested = |release| (OLDEST_TESTED..=NEWEST_TESTED).contains(&release);
        if self.release().is_some_and(tested) {
            return None;
        }
        let ((major, oldest), (_, newest)) = (OLDEST_TESTED, NEWEST_TESTED);
        Some(format!(
            "The agent server has {self}; this server is tested with {major}.{oldest} to \
             {major}.{newest}."
        ))
    }

    /// The name by which this version filters events of `kind`. Up to 1.46 at least it compares the
    /// whole name of the class, 1.58 knows both, and only the short name is documented.
    pub(crate) fn kind_filter(&self, kind: &str) -> String {
        let is_newer = self
            .release()
            .is_some_and(|release| release > NEWEST_TESTED);
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
            ("1.30.0", full, true),
            ("1.58.3", full, true),
            ("1.29.0", full, false),
            ("1.59.0", "PauseEvent", false),
            ("2.0.0", "PauseEvent", false),
            ("unknown", full, false),
        ] {
            assert_eq!(version(text).kind_filter("PauseEvent"), name, "{text}");
            assert_eq!(version(text).warning().is_none(), is_tested, "{text}");
        }
        let newer = version("1.59.0").warning().unwrap();
        assert!(newer.contains("version 1.59.0; this server is tested with 1.30 to 1.58"));
        assert!(ServerVersion(None).warning().unwrap().contains("unknown"));
    }
}
