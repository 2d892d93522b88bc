//! Which fields of a definition a list shows.

/// Which fields of a definition a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// `name`, `description`, `parameter_schema` (seed 001).
    Seed001,
    /// `name`, `description`, `inputSchema` (2024-11-05).
    Basic,
    /// Adds `annotations` (2025-03-26).
    Annotated,
    /// Adds `title` and `outputSchema` (2025-06-18 and later).
    Full,
    /// Adds `execution`, where a tool may run as a task (2025-11-25 alone).
    Tasks,
}

impl Detail {
    /// The members of a relayed definition that a list shows, where it has them.
    pub(super) fn relayed_members(self) -> &'static [&'static str] {
        match self {
            Self::Seed001 => &["description"],
            Self::Basic => &["description", "inputSchema"],
            Self::Annotated => &["description", "inputSchema", "annotations"],
            Self::Full => &[
                "title",
                "icons",
                "description",
                "inputSchema",
                "outputSchema",
                "annotations",
                "_meta",
            ],
            Self::Tasks => &[
                "title",
                "icons",
                "description",
                "inputSchema",
                "outputSchema",
                "annotations",
                "execution",
                "_meta",
            ],
        }
    }
}
