//! The stored form of a pinned tool.

use serde::{Deserialize, Serialize};

/// A tool of a backend, with the definitions that were approved and offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    pub(crate) backend: String,
    pub(crate) tool: String,
    /// `None` until the tool is approved for the first time.
    pub(crate) approved: Option<PinnedDefinition>,
    /// The definition that the backend offered last, if it is not the approved one.
    pub(crate) offered: Option<PinnedDefinition>,
    /// The hash of the definition that was refused last.
    pub(crate) refused: Option<String>,
    /// The earlier name of the tool, if only that has changed.
    pub(crate) renamed_from: Option<String>,
    /// The last decision.
    pub(crate) decided: Option<PinDecision>,
}

/// A definition at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinnedDefinition {
    pub(crate) hash: String,
    /// Canonical JSON; `None` if it is too long to be kept.
    pub(crate) text: Option<String>,
    /// The time when it was first seen.
    pub(crate) since: String,
}

/// A decision about a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinDecision {
    pub(crate) at: String,
    pub(crate) by: String,
}

/// The state of a pin for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinStatus {
    Approved,
    Changed,
    Renamed,
    New,
    Refused,
}

impl Pin {
    pub(crate) fn status(&self) -> PinStatus {
        match &self.offered {
            None => PinStatus::Approved,
            Some(offered) if self.refused.as_ref() == Some(&offered.hash) => PinStatus::Refused,
            Some(_) if self.approved.is_some() => PinStatus::Changed,
            Some(_) if self.renamed_from.is_some() => PinStatus::Renamed,
            Some(_) => PinStatus::New,
        }
    }

    /// The name by which commands know it.
    pub(crate) fn name(&self) -> String {
        format!("{}__{}", self.backend, self.tool)
    }
}

impl PinStatus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Changed => "changed",
            Self::Renamed => "renamed",
            Self::New => "new",
            Self::Refused => "refused",
        }
    }
}
