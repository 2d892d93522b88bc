//! The catalog as one group of callers sees it, in one view: what it may list and use.

use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

use super::tools::ToolLists;
use super::{Catalog, ViewCatalog};
use crate::era::Era;
use crate::http_headers::HeaderParam;
use crate::jsonrpc::Json;
use crate::prompt::{BoundPrompt, PromptDefinition, PromptKind};
use crate::registry::BoundItems;
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::server::access::{AccessItem, Denial, DeniedBy};
use crate::server::method::McpMethod;
use crate::server::views::Inclusion;
use crate::tool::{BoundTool, Call, Principal, ToolDefinition, ToolError};

/// The encoded lists of one group, each made when it is asked for.
#[derive(Default)]
pub(in crate::server) struct GroupLists {
    /// Whether the group may use a tool, in the order of the catalog.
    allowed_tools: OnceLock<Box<[bool]>>,
    tools: ToolLists,
    resources: OnceLock<Json>,
    templates: OnceLock<Json>,
    prompts: OnceLock<Json>,
    instructions: OnceLock<String>,
}

/// A catalog, and the group and the view of one caller.
pub(in crate::server) struct CatalogView {
    catalog: Arc<Catalog>,
    /// `None` for callers that may use nothing, since their view is gone.
    group: Option<usize>,
    /// The place of the view; `None` for the server itself.
    view: Option<usize>,
}

/// A tool, and its name outside of views, by which it is counted.
pub(in crate::server) type FoundTool<'a> = (&'a (ToolDefinition, Arc<dyn BoundTool>), &'a str);

impl CatalogView {
    pub(in crate::server) fn new(
        catalog: Arc<Catalog>,
        principal: Option<&Principal>,
        view: Option<&str>,
    ) -> Self {
        let access = catalog.access.as_ref();
        let group = access.map_or(Some(0), |access| access.group(principal, view));
        let (group, view) = match view.map(|name| catalog.view(name)) {
            None => (group, None),
            Some(None) => (None, None),
            Some(found) => (group, found),
        };
        Self {
            catalog,
            group,
            view,
        }
    }

    fn lists(&self) -> &GroupLists {
        let groups = &self.catalog.groups;
        // The last one is of those without a group.
        &groups[self.group.unwrap_or(groups.len() - 1)]
    }

    fn view(&self) -> Option<&ViewCatalog> {
        Some(&self.catalog.views[self.view?])
    }

    fn allows(&self, item: AccessItem<'_>) -> bool {
        match (&self.catalog.access, self.group) {
            (_, None) => false,
            (None, _) => true,
            (Some(access), Some(group)) => access.allows(group, item),
        }
    }

    /// Whether the tool at this place is in the view.
    fn inclusion(&self, at: usize) -> Inclusion {
        match self.view() {
            Some(view) => view.included.get(at).copied().unwrap_or(Inclusion::Out),
            None => Inclusion::Listed,
        }
    }

    fn allows_tool(&self, at: usize) -> bool {
        if self.catalog.access.is_none() {
            return self.group.is_some();
        }
        let allowed = self.lists().allowed_tools.get_or_init(|| {
            let tools = self.catalog.tools.tools.iter().enumerate();
            let is_allowed = |(at, (tool, _)): (usize, &(ToolDefinition, _))| {
                self.inclusion(at) != Inclusion::Out && self.allows(AccessItem::of_tool(tool))
            };
            tools.map(is_allowed).collect()
        });
        allowed.get(at).copied().unwrap_or_default()
    }

    /// The place of the tool with this name or alias.
    fn position(&self, name: &str) -> Option<usize> {
        let tools = &self.catalog.tools;
        let Some(view) = self.view() else {
            return tools.position(name);
        };
        let shown = &view.items.tools;
        let at = tools.position(shown.original(name))?;
        let (tool, _) = tools.get(at)?;
        (!shown.has_other_name(tool, name)).then_some(at)
    }

    /// The place of the tool with this name or alias, if the caller may use it.
    fn place(&self, name: &str) -> Option<usize> {
        self.position(name).filter(|at| self.allows_tool(*at))
    }

    /// The tool with this name or alias.
    pub(in crate::server) fn tool(
        &self,
        name: &str,
    ) -> Option<&(ToolDefinition, Arc<dyn BoundTool>)> {
        self.find_tool(name).map(|(tool, _)| tool)
    }

    /// The tool with this name or alias, and the name by which it is counted.
    pub(in crate::server) fn find_tool(&self, name: &str) -> Option<FoundTool<'_>> {
        let tool = self.catalog.tools.get(self.place(name)?)?;
        let view = self.view();
        let shown = view.map_or(tool, |view| view.items.tools.shown(tool));
        Some((shown, &tool.0.name))
    }

    /// Judges a call of one of its tools, with its arguments.
    pub(in crate::server) fn admit(
        &self,
        tool: &ToolDefinition,
        arguments: &RawValue,
        call: &Call,
    ) -> Result<(), ToolError> {
        let access = self.catalog.access.as_ref();
        access.map_or(Ok(()), |access| access.admit(tool, arguments, call))
    }

    /// The arguments of the tool `name` that clients repeat in headers.
    pub(in crate::server) fn header_params(&self, name: &str) -> &[HeaderParam] {
        match self.place(name) {
            Some(at) => self.catalog.tools.header_params(at),
            None => &[],
        }
    }

    /// The name by which the server knows the item of a request with this method: that of a tool may be an alias, or
    /// its name in the view.
    pub(in crate::server) fn published<'a>(&'a self, method: McpMethod, item: &'a str) -> &'a str {
        let tool = method.calls_tool().then(|| self.known(item)).flatten();
        tool.map_or(item, |tool| &tool.name)
    }

    /// The tool with this name in the view, or this name or alias of the server; it may not be for this caller.
    fn known(&self, name: &str) -> Option<&ToolDefinition> {
        let tools = &self.catalog.tools;
        let at = self.position(name).or_else(|| tools.position(name))?;
        Some(&tools.get(at)?.0)
    }

    /// The reason why this caller may not use an item that is there, for the operator. `item` is the name or URI
    /// of a request with this method.
    pub(in crate::server) fn denial(&self, method: McpMethod, item: &str) -> Option<Denial> {
        let Some(group) = self.group else {
            let reason = "denied: there is no such view for this caller";
            return Some(Denial::new(DeniedBy::View, reason));
        };
        let access = self.catalog.access.as_ref()?;
        let has_prompt = |prompts: &BoundItems<PromptKind>| {
            let mut prompts = prompts.iter();
            prompts.any(|(prompt, _)| prompt.name == item)
        };
        let (decided, tool) = match method {
            McpMethod::CallTool | McpMethod::Seed001CallTool => {
                let tool = self.known(item)?;
                (AccessItem::of_tool(tool), Some(tool))
            }
            McpMethod::GetPrompt | McpMethod::Complete if has_prompt(&self.catalog.prompts) => {
                (AccessItem::Prompt(item), None)
            }
            McpMethod::ReadResource | McpMethod::Subscribe | McpMethod::Complete => {
                (AccessItem::Resource(item), None)
            }
            _ => return None,
        };
        if !access.allows(group, decided) {
            return Some(Denial::new(DeniedBy::Role, access.explain(group, decided)));
        }
        let view = &self.view()?.items;
        let is_here = match decided {
            AccessItem::Tool { .. } => self.tool(item).is_some(),
            AccessItem::Prompt(_) => has_prompt(&view.prompts),
            AccessItem::Resource(uri) => {
                has_resource(&view.resources, uri) || !has_resource(&self.catalog.resources, uri)
            }
        };
        (!is_here).then(|| view.denial(tool))
    }

    /// The error of a call to the tool `name`, which is not in the catalog but may be later.
    pub(in crate::server) fn why_missing(&self, name: &str) -> Option<ToolError> {
        let item = AccessItem::Tool { name, effect: None };
        let why_missing = self.catalog.why_missing.as_ref()?;
        let view = self.view().map(|view| &*view.items.name);
        self.allows(item).then(|| why_missing(name, view))?
    }

    fn listed_tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let tools = self.catalog.tools.tools.iter().enumerate();
        let view = self.view();
        let is_listed = move |(at, tool): &(usize, &ToolDefinition)| {
            let is_listed = match view {
                None => tool.is_listed,
                Some(_) => self.inclusion(*at) == Inclusion::Listed,
            };
            is_listed && self.allows_tool(*at)
        };
        let tools = tools.map(|(at, (tool, _))| (at, tool));
        let shown = move |tool| match view {
            None => tool,
            Some(view) => view.items.tools.definition(tool),
        };
        tools.filter(is_listed).map(move |(_, tool)| shown(tool))
    }

    pub(in crate::server) fn tool_names(&self) -> Vec<String> {
        self.listed_tools().map(|tool| tool.name.clone()).collect()
    }

    /// The result of `tools/list`, with the fields of the era.
    pub(in crate::server) fn tool_list(&self, era: Era) -> &Json {
        let has_tasks = self.catalog.tools.has_tasks;
        self.lists().tools.list(era, has_tasks, self.listed_tools())
    }

    /// The result of `mcp.listTools`: an array.
    pub(in crate::server) fn seed_001_list(&self) -> &Json {
        self.lists().tools.seed_001(self.listed_tools())
    }

    /// True if callers may use this URI, or template, if there is one.
    pub(in crate::server) fn allows_uri(&self, uri: &str) -> bool {
        self.allows(AccessItem::Resource(uri))
    }

    /// True if changes of this resource concern callers: it may have been in their view when they subscribed.
    pub(in crate::server) fn watches(&self, uri: &str) -> bool {
        self.allows_uri(uri) && (self.view.is_none() || has_resource(self.resources(), uri))
    }

    /// True if callers may use all items.
    pub(in crate::server) fn is_open(&self) -> bool {
        match (&self.catalog.access, self.group) {
            (None, _) => true,
            (Some(access), Some(group)) => access.is_open(group),
            (Some(_), None) => false,
        }
    }

    pub(in crate::server) fn title(&self) -> Option<&str> {
        self.view()?.items.title.as_deref()
    }

    /// The `serverInfo` of modern results, if the view has one of its own.
    pub(in crate::server) fn modern_meta(&self) -> Option<&str> {
        Some(&self.view()?.modern_meta)
    }

    fn resources(&self) -> &BoundItems<ResourceKind> {
        let view = self.view();
        view.map_or(&self.catalog.resources, |view| &view.items.resources)
    }

    fn prompts(&self) -> &BoundItems<PromptKind> {
        let view = self.view();
        view.map_or(&self.catalog.prompts, |view| &view.items.prompts)
    }

    /// All resources and templates if this URI may be used, else none. Which of them has it is for the caller
    /// to find out.
    pub(in crate::server) fn resources_for(&self, uri: &str) -> &BoundItems<ResourceKind> {
        static NONE: BoundItems<ResourceKind> = Vec::new();
        match self.allows_uri(uri) {
            true => self.resources(),
            false => &NONE,
        }
    }

    /// The result of `resources/list`.
    pub(in crate::server) fn resource_list(&self) -> &Json {
        let encode = || self.encode_resources("resources", false);
        self.lists().resources.get_or_init(encode)
    }

    /// The result of `resources/templates/list`.
    pub(in crate::server) fn template_list(&self) -> &Json {
        let encode = || self.encode_resources("resourceTemplates", true);
        self.lists().templates.get_or_init(encode)
    }

    fn encode_resources(&self, name: &str, templates: bool) -> Json {
        let definitions = self.resources().iter().map(|(resource, _)| resource);
        let listed = definitions.filter(|resource| {
            resource.is_template() == templates && self.allows(AccessItem::Resource(&resource.uri))
        });
        list(name, listed.map(ResourceDefinition::encode))
    }

    pub(in crate::server) fn prompt(
        &self,
        name: &str,
    ) -> Option<&(PromptDefinition, Arc<dyn BoundPrompt>)> {
        let mut prompts = self.prompts().iter();
        let found = prompts.find(|(prompt, _)| prompt.name == name)?;
        self.allows(AccessItem::Prompt(name)).then_some(found)
    }

    /// The result of `prompts/list`.
    pub(in crate::server) fn prompt_list(&self) -> &Json {
        self.lists().prompts.get_or_init(|| {
            let prompts = self.prompts().iter().map(|(prompt, _)| prompt);
            let listed = prompts.filter(|prompt| self.allows(AccessItem::Prompt(&prompt.name)));
            list("prompts", listed.map(PromptDefinition::encode))
        })
    }

    /// Instructions for the model; empty for none.
    pub(in crate::server) fn instructions(&self) -> &str {
        match (&self.catalog.group_instructions, self.group) {
            (_, None) => "",
            (None, _) => &self.catalog.instructions,
            (Some(of_group), Some(group)) => {
                let instructions = &self.lists().instructions;
                instructions.get_or_init(|| of_group(group))
            }
        }
    }
}

/// True if one of them has this URI, or is a template for such ones.
fn has_resource(resources: &BoundItems<ResourceKind>, uri: &str) -> bool {
    let mut resources = resources.iter().map(|(resource, _)| resource);
    resources.any(|resource| match resource.uri.split_once('{') {
        Some((start, _)) => uri.starts_with(start),
        None => resource.uri == uri,
    })
}

/// A result with one member: an array of encoded items.
fn list(name: &str, items: impl Iterator<Item = String>) -> Json {
    let items: Vec<String> = items.collect();
    Json::Owned(format!(r#"{{"{name}":[{}]}}"#, items.join(","))).shared()
}

#[cfg(test)]
mod tests;
