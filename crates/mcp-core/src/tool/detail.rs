//! The levels of detail of tool lists.

/// The fields of a definition that a list shows.
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
    /// Adds `execution`, if a tool may run as a task (2025-11-25 only).
    Tasks,
}

impl Detail {
    /// True if a list of this detail shows the field.
    pub(super) fn shows(self, field: &str) -> bool {
        match field {
            "description" => true,
            "inputSchema" => self != Self::Seed001,
            "annotations" => !matches!(self, Self::Seed001 | Self::Basic),
            "execution" => self == Self::Tasks,
            _ => matches!(self, Self::Full | Self::Tasks),
        }
    }
}
