//! The supported revisions of the specification.

use std::fmt;

/// A legacy revision: one that starts with an `initialize` handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// The first stable one, which the seeds describe.
    V2024_11_05,
    /// Streamable HTTP, batches, annotations, audio.
    V2025_03_26,
    /// Structured content, elicitation, titles; no batches.
    V2025_06_18,
    /// Icons, tasks, argument errors as results.
    V2025_11_25,
}

/// The modern revision, which has no handshake.
pub const MODERN: &str = "2026-07-28";

impl Revision {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];

    /// The revision that a client gets which asks for an unknown one.
    pub const LATEST: Self = Self::V2025_11_25;

    /// The legacy revision with this date.
    pub fn parse(date: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|revision| revision.as_str() == date)
    }

    /// Its date, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
