//! Views: parts of the gateway with a path of their own, `/mcp/NAME`, in which tools may have other names.
//!
//! A view only narrows: an item is there for a caller if its role and the view allow it. Both decide by the published
//! name and by the effect without the view.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_core::server::AccessItem;

use crate::own_tools::{OWN_TOOLS, SEARCH_TOOLS};
use crate::roles::{Decision, Role};

/// The name of the gateway without a view, in `views` of a role.
pub const WITHOUT_VIEW: &str = "/mcp";

/// One view.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The last part of its path.
    pub name: Arc<str>,
    /// Its title for clients.
    pub title: Option<String>,
    /// For the model, in place of those of the gateway.
    pub instructions: Option<String>,
    /// The names of its backends; `None` for all.
    pub backends: Option<BTreeSet<String>>,
    /// The names of all other backends, if one of its own publishes names without its key: a name that begins with
    /// none of them may be such a one.
    pub others: Option<BTreeSet<String>>,
    /// Its `allow` and `deny`.
    pub rules: Role,
    /// The tools of the gateway itself that it has.
    pub own: Vec<OwnTool>,
    /// Tools with other names there.
    pub tools: Vec<ViewTool>,
}

/// A tool of the gateway itself that a view can have. Those for the search are there if they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnTool {
    /// The state of the backends of the view.
    GatewayStatus,
    /// The events of the view.
    GetEvents,
    /// Restarts a backend of the view.
    GatewayRestart,
}

/// A tool that has another name in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewTool {
    /// Its published name.
    pub original: String,
    /// Its name in the view.
    pub name: String,
}

impl View {
    /// True if it has this backend.
    pub fn has_backend(&self, key: &str) -> bool {
        let backends = self.backends.as_ref();
        backends.is_none_or(|backends| backends.contains(key))
    }

    /// The published name of a tool that is called `name` here.
    pub fn original<'a>(&'a self, name: &'a str) -> &'a str {
        let mut tools = self.tools.iter();
        let found = tools.find(|tool| tool.name == name);
        found.map_or(name, |tool| &tool.original)
    }

    /// Decides about one item, without the role of a caller; `owner` is the backend of a resource. Which backend has an
    /// item is decided here only for a tool that is not in the catalog, which has its name here, its published name or
    /// the form `KEY:NAME`.
    pub fn decide(&self, item: AccessItem<'_>, owner: Option<&str>) -> Decision<'_> {
        match item {
            AccessItem::Tool { name, .. } if OWN_TOOLS.contains(&name) => {
                let is_listed = self.own.iter().any(|own| own.name() == name);
                Decision::Own(is_listed || SEARCH_TOOLS.contains(&name))
            }
            AccessItem::Tool { name, effect: None } => self.decide_missing(name),
            _ => self.rules.decide(item, owner),
        }
    }

    fn decide_missing(&self, name: &str) -> Decision<'_> {
        let item = |name| AccessItem::Tool { name, effect: None };
        let original = self.original(name);
        let published = name.replacen([':', '.'], "__", 1);
        let mut tools = self.tools.iter();
        let other_name = tools.find(|tool| tool.original == published);
        if let (true, Some(tool)) = (original == name, other_name) {
            return Decision::OtherName(&tool.name);
        }
        let is_of = |key: &String| {
            let item = original.strip_prefix(key.as_str());
            item.is_some_and(|item| ["__", ":", "."].iter().any(|mark| item.starts_with(mark)))
        };
        let has = |keys: &BTreeSet<String>| keys.iter().any(is_of);
        let may_be_bare = || self.others.as_ref().is_some_and(|others| !has(others));
        let is_here = self.backends.as_ref().is_none_or(has) || may_be_bare();
        match is_here {
            true => self.rules.decide(item(original), None),
            false => Decision::NoBackend,
        }
    }
}

impl OwnTool {
    fn name(self) -> &'static str {
        match self {
            Self::GatewayStatus => "gateway_status",
            Self::GetEvents => "get_events",
            Self::GatewayRestart => "gateway_restart",
        }
    }
}

/// The place of the view with this name.
pub(crate) fn position(views: &[Arc<View>], name: &str) -> Option<usize> {
    views.iter().position(|view| *view.name == *name)
}
