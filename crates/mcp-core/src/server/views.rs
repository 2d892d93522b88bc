//! Views: parts of a server with a path of their own, in which tools may have other names and texts.

use std::collections::HashMap;
use std::sync::Arc;

use super::access::{Denial, DeniedBy};
use crate::prompt::PromptKind;
use crate::registry::BoundItems;
use crate::resource::ResourceKind;
use crate::tool::{BoundTool, ToolDefinition};

/// The items of one view.
#[derive(Clone)]
pub struct ViewItems {
    /// Its name.
    pub name: Arc<str>,
    /// The title of the server there; `None` for none.
    pub title: Option<String>,
    /// Its tools.
    pub tools: Arc<ViewTools>,
    /// Its resources and templates.
    pub resources: BoundItems<ResourceKind>,
    /// Its prompts.
    pub prompts: BoundItems<PromptKind>,
}

impl ViewItems {
    /// The reason why an item that the rules allow is not there, for the operator: a `tool` has another name in
    /// the view, or the item is of a backend that the view does not have.
    pub fn denial(&self, tool: Option<&ToolDefinition>) -> Denial {
        let reason = match tool {
            Some(tool) if self.tools.includes(tool) != Inclusion::Out => {
                format!("it is {} there", self.tools.definition(tool).name)
            }
            _ => "of none of its backends".to_owned(),
        };
        let reason = format!("view {}: denied: {reason}", self.name);
        Denial::new(DeniedBy::View, reason)
    }
}

/// Whether a tool of the server is in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inclusion {
    /// It is not.
    Out,
    /// It can be called.
    Callable,
    /// It can be called, and is listed.
    Listed,
}

type Tool = (ToolDefinition, Arc<dyn BoundTool>);

/// The tools of a server as one view shows them.
pub struct ViewTools {
    includes: Box<dyn Fn(&ToolDefinition) -> Inclusion + Send + Sync>,
    /// Tools with other names or texts, by their original names.
    changed: HashMap<String, Tool>,
    /// Their original names, by those that they have here.
    originals: HashMap<String, String>,
}

impl ViewTools {
    /// The tools that are in the view, of which some are `changed`: made by [`ToolDefinition::in_view`].
    pub fn new(
        includes: impl Fn(&ToolDefinition) -> Inclusion + Send + Sync + 'static,
        changed: Vec<Tool>,
    ) -> Self {
        let originals = changed.iter().map(|(tool, _)| {
            let original = tool.original_name().to_owned();
            (tool.name.clone(), original)
        });
        Self {
            includes: Box::new(includes),
            originals: originals.collect(),
            changed: changed
                .into_iter()
                .map(|tool| (tool.0.original_name().to_owned(), tool))
                .collect(),
        }
    }

    /// Whether a tool of the server is in the view.
    pub fn includes(&self, tool: &ToolDefinition) -> Inclusion {
        (self.includes)(tool)
    }

    /// The name by which the server knows the tool that is called `name` here.
    pub fn original<'a>(&'a self, name: &'a str) -> &'a str {
        self.originals.get(name).map_or(name, String::as_str)
    }

    /// A tool of the server as it is shown here.
    pub fn shown<'a>(&'a self, tool: &'a Tool) -> &'a Tool {
        match self.changed.is_empty() {
            true => tool,
            false => self.changed.get(&tool.0.name).unwrap_or(tool),
        }
    }

    /// The definition of a tool of the server as it is shown here.
    pub fn definition<'a>(&'a self, tool: &'a ToolDefinition) -> &'a ToolDefinition {
        self.changed
            .get(&tool.name)
            .map_or(tool, |(shown, _)| shown)
    }

    /// True if `name` is not that of `tool` here, but only its original name or an alias of that.
    pub fn has_other_name(&self, tool: &ToolDefinition, name: &str) -> bool {
        let shown = self.definition(tool);
        shown.name != tool.name && shown.name != name
    }

    /// True if the tool has other texts or another name here.
    pub fn is_changed(&self, tool: &ToolDefinition) -> bool {
        self.changed.contains_key(&tool.name)
    }
}
