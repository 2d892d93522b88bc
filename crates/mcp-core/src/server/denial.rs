//! Refusals of what a caller has asked for, as the audit of a request tells them.

/// A refusal of what a caller has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The rule, or the person, that has decided.
    pub by: DeniedBy,
    /// The rule in words, for the operator.
    pub reason: String,
}

/// The kind of rule that denies a request, or the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedBy {
    /// The rules of the caller's role.
    Role,
    /// A condition of the role on the arguments.
    Condition,
    /// The role's limit of calls.
    Limit,
    /// The view that the caller uses.
    View,
    /// The configuration, for all callers.
    Configuration,
    /// Its definition has changed, and no person has approved that yet.
    Changed,
    /// A person who was asked, or the lack of one to ask.
    Person,
}

impl DeniedBy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Role,
        Self::Condition,
        Self::Limit,
        Self::View,
        Self::Configuration,
        Self::Changed,
        Self::Person,
    ];

    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Condition => "condition",
            Self::Limit => "limit",
            Self::View => "view",
            Self::Configuration => "configuration",
            Self::Changed => "changed",
            Self::Person => "person",
        }
    }
}

impl Denial {
    /// Denies for `reason`, which completes a line for the operator.
    pub fn new(by: DeniedBy, reason: impl Into<String>) -> Self {
        Self {
            by,
            reason: reason.into(),
        }
    }
}
