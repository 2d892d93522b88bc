//! The stored form of a pinned tool.

use serde::{Deserialize, Serialize};

use super::diff::diff;
use super::now;

/// A tool of a backend, with the definitions that were approved and offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The key of the backend.
    pub backend: String,
    /// The name in its list.
    pub tool: String,
    /// `None` until the tool is approved for the first time.
    pub approved: Option<PinnedDefinition>,
    /// The definition that the backend offered last, if it is not the approved one.
    pub offered: Option<PinnedDefinition>,
    /// The hash of the definition that was refused last.
    pub refused: Option<String>,
    /// The earlier name of the tool, if only that has changed.
    pub renamed_from: Option<String>,
    /// The last decision.
    pub decided: Option<PinDecision>,
}

/// A definition at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedDefinition {
    /// See [`hash`](super::hash).
    pub hash: String,
    /// Canonical JSON; `None` if it is too long to be kept.
    pub text: Option<String>,
    /// The time when it was first seen.
    pub since: String,
}

/// A decision about a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinDecision {
    /// The time.
    pub at: String,
    /// The person or program.
    pub by: String,
}

/// The state of a pin for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinStatus {
    /// Offered as it was approved.
    Approved,
    /// Offered with another definition.
    Changed,
    /// Offered with another name.
    Renamed,
    /// Not approved yet.
    New,
    /// Offered as it was refused.
    Refused,
}

impl Pin {
    /// Returns its state.
    pub fn status(&self) -> PinStatus {
        match &self.offered {
            None => PinStatus::Approved,
            Some(offered) if self.refused.as_ref() == Some(&offered.hash) => PinStatus::Refused,
            Some(_) if self.approved.is_some() => PinStatus::Changed,
            Some(_) if self.renamed_from.is_some() => PinStatus::Renamed,
            Some(_) => PinStatus::New,
        }
    }

    /// Returns the pin after a decision about the definition that is offered.
    #[must_use]
    pub fn decided_now(&self, approve: bool, by: String) -> Self {
        let decided = Some(PinDecision { at: now(), by });
        match approve {
            true => Self {
                approved: self.offered.clone(),
                offered: None,
                refused: None,
                renamed_from: None,
                decided,
                ..self.clone()
            },
            false => Self {
                refused: self.offered.as_ref().map(|offered| offered.hash.clone()),
                decided,
                ..self.clone()
            },
        }
    }

    /// Returns what has changed, a line for each value; `None` if a definition is too long to be kept.
    pub fn diff(&self) -> Option<Vec<String>> {
        let offered = self.offered.as_ref()?.text.as_deref()?;
        let approved = match (&self.approved, &self.renamed_from) {
            (Some(approved), _) => approved.text.as_deref()?,
            // Only the name has changed.
            (None, Some(_)) => offered,
            (None, None) => "{}",
        };
        Some(diff(approved, offered))
    }

    /// The name by which commands know it.
    pub fn name(&self) -> String {
        format!("{}__{}", self.backend, self.tool)
    }
}

impl PinStatus {
    /// Returns its name, for commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Changed => "changed",
            Self::Renamed => "renamed",
            Self::New => "new",
            Self::Refused => "refused",
        }
    }
}
