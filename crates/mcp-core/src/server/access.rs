//! The items of a server, and access to them: which of them each group of callers may list and use, and why not.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::prompt::PromptDefinition;
use crate::registry::BoundItems;
use crate::resource::ResourceDefinition;
use crate::tool::{Call, Effect, Principal, ToolDefinition, ToolError};

/// The items that clients can list, in order, and what belongs to them: those of a server, or of a group of callers.
#[derive(Clone, Default)]
pub struct ServerItems {
    /// The title of the server; `None` for none.
    pub title: Option<String>,
    /// Tools.
    pub tools: BoundItems<ToolDefinition>,
    /// Resources and templates of resources.
    pub resources: BoundItems<ResourceDefinition>,
    /// Prompts.
    pub prompts: BoundItems<PromptDefinition>,
    /// Instructions for the model; empty for none.
    pub instructions: String,
    /// Chooses the items of each caller, among the server's own ones too; `None` if every caller may use all.
    pub access: Option<Arc<dyn Access>>,
    /// Explains unknown tools; `None` if there is nothing to explain.
    pub why_missing: Option<WhyMissing>,
}

/// Returns the error of a call to a tool that cannot be listed at the moment, by the tool's name; `None` if there is no
/// such tool.
pub type WhyMissing = Arc<dyn Fn(&str) -> Option<ToolError> + Send + Sync>;

/// Decides which part of a server's items a caller sees, as the roles and views of a gateway do.
///
/// An item that a caller may not use does not exist for it: no list has it, and a request for it is answered
/// like one for an unknown item, in every era and under every alias. Callers are put into groups, so that the items of a
/// group are chosen, and its lists encoded, once.
pub trait Access: Send + Sync {
    /// The number of groups, at least 1.
    fn groups(&self) -> usize;

    /// The group of the callers whose bearer token belongs to this principal, `None` for callers without a
    /// token, in the view with this name, `None` for the server itself. Less than [`groups`](Self::groups).
    /// `None` if there is no such view for them.
    fn group(&self, principal: Option<&Principal>, view: Option<&str>) -> Option<usize>;

    /// The names of the views: parts of the server with a path of their own.
    fn views(&self) -> Vec<Arc<str>>;

    /// True if the role of a token counts.
    fn has_roles(&self) -> bool;

    /// The items of a group: those of `all` that it may use, by the names and with the texts that it sees. Templates of
    /// resources may be more, since [`allows_uri`](Self::allows_uri) is asked for each.
    fn items(&self, group: usize, all: &ServerItems) -> ServerItems;

    /// True if callers of the group may use all items, whatever they are.
    fn is_open(&self, group: usize) -> bool;

    /// True if callers of the group may use this URI, or template, if there is one. Requests have it from a client.
    fn allows_uri(&self, group: usize, uri: &str) -> bool;

    /// The name by which the server knows the tool that a group calls `name`.
    fn original<'a>(&'a self, group: usize, name: &'a str) -> &'a str;

    /// The reason why callers of the group may not use an item that is there, for the operator.
    fn denial(&self, group: usize, item: AccessItem<'_>) -> Option<Denial>;

    /// Judges a call of a tool that its caller may use, with its arguments, before anything else is done for it.
    ///
    /// # Errors
    /// The refusal, which becomes the result of the call.
    fn admit(
        &self,
        tool: &ToolDefinition,
        arguments: &RawValue,
        call: &Call,
    ) -> Result<(), ToolError>;
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
