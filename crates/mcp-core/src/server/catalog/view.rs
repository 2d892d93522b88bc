//! The catalog as one group of callers sees it: what it may list and use.

use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

use super::Catalog;
use crate::era::Era;
use crate::http_headers::HeaderParam;
use crate::jsonrpc::Json;
use crate::prompt::{BoundPrompt, PromptDefinition};
use crate::registry::BoundItems;
use crate::resource::{ResourceDefinition, ResourceKind};
use crate::server::access::{Access, AccessItem};
use crate::server::mcp_method::McpMethod;
use crate::server::tool_catalog::ToolLists;
use crate::tool::{BoundTool, Call, Principal, ToolDefinition, ToolError, ToolKind};

/// The view of one group, with its encoded lists.
#[derive(Default)]
pub(in crate::server) struct View {
    /// Whether the group may use a tool, in the order of the catalog; `None` if it may use all.
    allowed_tools: Option<Box<[bool]>>,
    tools: ToolLists,
    resources: OnceLock<Json>,
    templates: OnceLock<Json>,
    prompts: OnceLock<Json>,
}

impl View {
    pub(in crate::server) fn of_group(
        group: usize,
        access: &dyn Access,
        tools: &BoundItems<ToolKind>,
    ) -> Self {
        let allowed = tools.iter().map(|(tool, _)| {
            let effect = Some(tool.effect);
            access.allows(
                group,
                AccessItem::Tool {
                    name: &tool.name,
                    effect,
                },
            )
        });
        Self {
            allowed_tools: Some(allowed.collect()),
            ..Self::default()
        }
    }

    fn allows_tool(&self, at: usize) -> bool {
        let allowed = self.allowed_tools.as_ref();
        allowed.is_none_or(|allowed| allowed.get(at).copied().unwrap_or_default())
    }
}

/// A catalog and the group of one caller.
pub(in crate::server) struct CatalogView {
    catalog: Arc<Catalog>,
    group: usize,
}

impl CatalogView {
    pub(in crate::server) fn new(catalog: Arc<Catalog>, principal: Option<&Principal>) -> Self {
        let access = catalog.access.as_ref();
        let group = access.map_or(0, |access| access.group(principal));
        Self { catalog, group }
    }

    fn view(&self) -> &View {
        &self.catalog.views[self.group]
    }

    fn allows(&self, item: AccessItem<'_>) -> bool {
        let access = self.catalog.access.as_ref();
        access.is_none_or(|access| access.allows(self.group, item))
    }

    /// The tool with this name or alias.
    pub(in crate::server) fn tool(
        &self,
        name: &str,
    ) -> Option<&(ToolDefinition, Arc<dyn BoundTool>)> {
        let at = self.catalog.tools.position(name)?;
        let tool = self.catalog.tools.get(at)?;
        self.view().allows_tool(at).then_some(tool)
    }

    /// Judges a call of one of its tools, with its arguments.
    ///
    /// # Errors
    /// The refusal.
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
        match self.tool(name) {
            Some((tool, _)) => self.catalog.tools.header_params(&tool.name),
            None => &[],
        }
    }

    /// The reason why this caller may not use an item that is there, for the operator. `item` is the name or URI
    /// of a request with this method.
    pub(in crate::server) fn denial(&self, method: McpMethod, item: &str) -> Option<String> {
        let access = self.catalog.access.as_ref()?;
        let is_prompt = || {
            let mut prompts = self.catalog.prompts.iter();
            prompts.any(|(prompt, _)| prompt.name == item)
        };
        let item = match method {
            McpMethod::CallTool | McpMethod::Seed001CallTool => {
                let (tool, _) = self.catalog.tools.get(self.catalog.tools.position(item)?)?;
                AccessItem::Tool {
                    name: &tool.name,
                    effect: Some(tool.effect),
                }
            }
            McpMethod::GetPrompt | McpMethod::Complete if is_prompt() => AccessItem::Prompt(item),
            McpMethod::ReadResource | McpMethod::Subscribe | McpMethod::Complete => {
                AccessItem::Resource(item)
            }
            _ => return None,
        };
        let is_denied = !access.allows(self.group, item);
        is_denied.then(|| access.explain(self.group, item))
    }

    /// The error of a call to the tool `name`, which is not in the catalog but may be later.
    pub(in crate::server) fn why_missing(&self, name: &str) -> Option<ToolError> {
        let item = AccessItem::Tool { name, effect: None };
        self.allows(item).then(|| self.catalog.why_missing(name))?
    }

    fn listed_tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let tools = self.catalog.tools.tools.iter().enumerate();
        let is_listed =
            |(at, tool): &(usize, &ToolDefinition)| tool.is_listed && self.view().allows_tool(*at);
        let tools = tools.map(|(at, (tool, _))| (at, tool));
        tools.filter(is_listed).map(|(_, tool)| tool)
    }

    /// The names of the listed tools.
    pub(in crate::server) fn tool_names(&self) -> Vec<String> {
        self.listed_tools().map(|tool| tool.name.clone()).collect()
    }

    /// The result of `tools/list`, with the fields of the era.
    pub(in crate::server) fn tool_list(&self, era: Era) -> &Json {
        let has_tasks = self.catalog.tools.has_tasks;
        self.view().tools.list(era, has_tasks, self.listed_tools())
    }

    /// The result of `mcp.listTools`: an array.
    pub(in crate::server) fn seed_001_list(&self) -> &Json {
        self.view().tools.seed_001(self.listed_tools())
    }

    /// True if callers may use this URI, or template.
    pub(in crate::server) fn allows_uri(&self, uri: &str) -> bool {
        self.allows(AccessItem::Resource(uri))
    }

    /// True if callers may use all items.
    pub(in crate::server) fn is_open(&self) -> bool {
        self.catalog.access.is_none()
    }

    /// All resources and templates if this URI may be used, else none. Which of them has it is for the caller
    /// to find out.
    pub(in crate::server) fn resources_for(&self, uri: &str) -> &BoundItems<ResourceKind> {
        static NONE: BoundItems<ResourceKind> = Vec::new();
        match self.allows_uri(uri) {
            true => &self.catalog.resources,
            false => &NONE,
        }
    }

    /// The result of `resources/list`.
    pub(in crate::server) fn resource_list(&self) -> &Json {
        let encode = || self.encode_resources("resources", false);
        self.view().resources.get_or_init(encode)
    }

    /// The result of `resources/templates/list`.
    pub(in crate::server) fn template_list(&self) -> &Json {
        let encode = || self.encode_resources("resourceTemplates", true);
        self.view().templates.get_or_init(encode)
    }

    fn encode_resources(&self, name: &str, templates: bool) -> Json {
        let definitions = self.catalog.resources.iter().map(|(resource, _)| resource);
        let listed = definitions.filter(|resource| {
            resource.is_template() == templates && self.allows(AccessItem::Resource(&resource.uri))
        });
        list(name, listed.map(ResourceDefinition::encode))
    }

    /// The prompt with this name.
    pub(in crate::server) fn prompt(
        &self,
        name: &str,
    ) -> Option<&(PromptDefinition, Arc<dyn BoundPrompt>)> {
        let mut prompts = self.catalog.prompts.iter();
        let found = prompts.find(|(prompt, _)| prompt.name == name)?;
        self.allows(AccessItem::Prompt(name)).then_some(found)
    }

    /// The result of `prompts/list`.
    pub(in crate::server) fn prompt_list(&self) -> &Json {
        self.view().prompts.get_or_init(|| {
            let prompts = self.catalog.prompts.iter().map(|(prompt, _)| prompt);
            let listed = prompts.filter(|prompt| self.allows(AccessItem::Prompt(&prompt.name)));
            list("prompts", listed.map(PromptDefinition::encode))
        })
    }

    /// Instructions for the model; empty for none.
    pub(in crate::server) fn instructions(&self) -> &str {
        let groups = &self.catalog.instructions;
        let own = groups.get(self.group).or(groups.first());
        own.map_or("", String::as_str)
    }
}

/// A result with one member: an array of encoded items.
fn list(name: &str, items: impl Iterator<Item = String>) -> Json {
    let items: Vec<String> = items.collect();
    Json::Owned(format!(r#"{{"{name}":[{}]}}"#, items.join(","))).shared()
}
