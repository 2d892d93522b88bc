//! The settings for tools whose definition is new or has changed.

use serde::Deserialize;

/// The reaction to a tool whose definition differs from the one that was approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Offers it, unless it was refused, and records an event.
    #[default]
    Warn,
    /// Also holds it back until it is approved.
    Hold,
    /// Remembers and compares nothing.
    Off,
}

/// The reaction to a tool that was never seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstSight {
    /// Counts as approved.
    #[default]
    Trust,
    /// Is held back until it is approved.
    Hold,
}

/// Both settings of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinPolicy {
    /// The reaction to a changed tool.
    pub mode: PinMode,
    /// The reaction to a new tool.
    pub first_sight: FirstSight,
}

impl PinPolicy {
    /// Returns the policy with these settings in the place of its own.
    pub fn with(self, mode: Option<PinMode>, first_sight: Option<FirstSight>) -> Self {
        Self {
            mode: mode.unwrap_or(self.mode),
            first_sight: first_sight.unwrap_or(self.first_sight),
        }
    }
}
