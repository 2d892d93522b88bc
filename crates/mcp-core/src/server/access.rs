//! Access: which items each group of callers may list and use, and why not.

use serde_json::value::RawValue;

use crate::tool::{Call, Effect, Principal, ToolDefinition, ToolError};

/// Decides which items a caller may list and use.
///
/// An item that a caller may not use does not exist for it: no list has it, and a request for it is answered
/// like one for an unknown item, in every era and under every alias. Callers are put into groups, so that a list
/// is encoded once for each group.
pub trait Access: Send + Sync {
    /// The number of groups, at least 1.
    fn groups(&self) -> usize;

    /// The group of the callers whose bearer token belongs to this principal, `None` for callers without a
    /// token, in the view with this name, `None` for the server itself. Less than [`groups`](Self::groups).
    /// `None` if there is no such view for them.
    fn group(&self, principal: Option<&Principal>, view: Option<&str>) -> Option<usize>;

    /// True if callers of the group may list and use the item.
    fn allows(&self, group: usize, item: AccessItem<'_>) -> bool;

    /// True if callers of the group may use all items, whatever they are.
    fn is_open(&self, _group: usize) -> bool {
        false
    }

    /// True if the role of a token counts.
    fn has_roles(&self) -> bool {
        true
    }

    /// A number that is the same while the decisions in this view are the same.
    fn fingerprint(&self, view: Option<&str>) -> u64;

    /// The reason for the decision about an item, for the operator.
    fn explain(&self, group: usize, item: AccessItem<'_>) -> String;

    /// Judges a call of a tool that its caller may use, with its arguments, before anything else is done for it.
    ///
    /// # Errors
    /// The refusal, which becomes the result of the call.
    fn admit(
        &self,
        _tool: &ToolDefinition,
        _arguments: &RawValue,
        _call: &Call,
    ) -> Result<(), ToolError> {
        Ok(())
    }
}

/// An item whose use is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessItem<'a> {
    /// The tool with this name, which is never an alias or the name in a view.
    Tool {
        /// Its name.
        name: &'a str,
        /// Its effect; `None` for a name that is not in the catalog.
        effect: Option<Effect>,
    },
    /// The prompt with this name.
    Prompt(&'a str),
    /// The resource with this URI, or the template with this text. Requests have it from a client.
    Resource(&'a str),
}

impl<'a> AccessItem<'a> {
    /// The item of a tool, whatever a view shows of it.
    pub fn of_tool(tool: &'a ToolDefinition) -> Self {
        Self::Tool {
            name: tool.original_name(),
            effect: Some(tool.original_effect()),
        }
    }
}

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
