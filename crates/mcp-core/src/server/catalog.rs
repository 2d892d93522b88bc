//! The current items of a server, and the part of them that a caller sees.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::access::{Access, AccessItem, Denial, DeniedBy};
use super::method::McpMethod;
use super::{Caller, Identity, Principal, Server, ServerFeatures, ServerItems};
use crate::era::Era;
use crate::jsonrpc::Json;
use crate::prompt::{BoundPrompt, PromptDefinition};
use crate::registry::{BoundItems, Definition};
use crate::resource::ResourceDefinition;
use crate::revision::Revision;
use crate::tool::{BoundTool, Call, Detail, Effect, TaskSupport, ToolDefinition, ToolError};

/// The items of a server that are published now.
pub(super) struct Published {
    /// All of them.
    all: Arc<Catalog>,
    /// The part of each group of callers, made when one of them asks.
    groups: Vec<OnceLock<Arc<Catalog>>>,
    /// The part of callers whose view is gone.
    nothing: Arc<Catalog>,
}

/// The items that a caller sees. Each look-up of a request may give a newer catalog; the one that the item is taken from
/// judges the call.
pub(super) struct Catalog {
    items: ServerItems,
    seen_by: SeenBy,
    /// The places of the tools, by name and alias.
    by_name: HashMap<String, usize, RandomState>,
    /// True if some tool may run as a task.
    pub(super) has_tasks: bool,
    /// The `serverInfo` in the `_meta` of every modern result, as JSON.
    modern_meta: String,
    lists: EncodedLists,
}

/// The callers that see a catalog.
enum SeenBy {
    All,
    /// A group, which sees a part of all items.
    Group(Arc<dyn Access>, usize, Arc<Catalog>),
    /// Callers whose view is gone.
    Nobody,
}

/// The lists of a catalog as clients get them, each made when it is asked for.
#[derive(Default)]
struct EncodedLists {
    /// By [`Detail`].
    tools: [OnceLock<Json>; 5],
    /// Resources without variables in their URIs, and templates.
    resources: [OnceLock<Json>; 2],
    prompts: OnceLock<Json>,
    hashes: OnceLock<ListHashes>,
}

/// Hashes of the lists, in the order of [`ServerChange::LISTS`](super::ServerChange::LISTS), which tell whether a list has changed.
pub(super) type ListHashes = [u64; 3];

impl Published {
    pub(super) fn new(items: ServerItems, identity: &Identity) -> Self {
        let groups = items.access.as_ref().map_or(0, |access| access.groups());
        Self {
            all: Arc::new(Catalog::new(items, SeenBy::All, identity)),
            groups: (0..groups).map(|_| OnceLock::new()).collect(),
            nothing: Arc::new(Catalog::new(
                ServerItems::default(),
                SeenBy::Nobody,
                identity,
            )),
        }
    }

    /// The part that callers whose token belongs to this principal see in this view.
    fn of(
        &self,
        principal: Option<&Principal>,
        view: Option<&str>,
        identity: &Identity,
    ) -> Arc<Catalog> {
        let all = &self.all;
        let catalog = match &all.items.access {
            None if view.is_none() => all,
            None => &self.nothing,
            Some(access) => match access.group(principal, view) {
                None => &self.nothing,
                Some(group) => self.groups[group].get_or_init(|| {
                    let items = access.items(group, &all.items);
                    let seen_by = SeenBy::Group(Arc::clone(access), group, Arc::clone(all));
                    Arc::new(Catalog::new(items, seen_by, identity))
                }),
            },
        };
        Arc::clone(catalog)
    }
}

impl Catalog {
    fn new(items: ServerItems, seen_by: SeenBy, identity: &Identity) -> Self {
        let numbered = || items.tools.iter().map(|(tool, _)| tool).enumerate();
        let aliases = numbered().flat_map(|(at, tool)| tool.aliases.iter().map(move |n| (n, at)));
        let names = numbered().map(|(at, tool)| (&tool.name, at));
        // Names come last, so that no alias hides a name.
        let by_name = aliases.chain(names).map(|(name, at)| (name.clone(), at));
        Self {
            by_name: by_name.collect(),
            has_tasks: numbered().any(|(_, tool)| tool.task != TaskSupport::Never),
            modern_meta: identity.modern_meta(items.title.as_deref()),
            items,
            seen_by,
            lists: EncodedLists::default(),
        }
    }

    /// The tool with this name or alias.
    pub(super) fn tool(&self, name: &str) -> Option<&(ToolDefinition, Arc<dyn BoundTool>)> {
        self.items.tools.get(*self.by_name.get(name)?)
    }

    /// Judges a call of one of its tools, with its arguments.
    pub(super) fn admit(
        &self,
        tool: &ToolDefinition,
        arguments: &RawValue,
        call: &Call,
    ) -> Result<(), ToolError> {
        match &self.seen_by {
            SeenBy::Group(access, ..) => access.admit(tool, arguments, call),
            SeenBy::All | SeenBy::Nobody => Ok(()),
        }
    }

    /// The tool that callers call `name`, as the server knows it; they may not be allowed to use it.
    fn known(&self, name: &str) -> Option<&ToolDefinition> {
        let found = match &self.seen_by {
            SeenBy::All => self.tool(name),
            SeenBy::Group(access, group, all) => all.tool(access.original(*group, name)),
            SeenBy::Nobody => None,
        };
        found.map(|(tool, _)| tool)
    }

    /// The name by which the server knows the item of a request with this method: that of a tool may be an alias, or
    /// its name in a view.
    pub(super) fn published<'a>(&'a self, method: McpMethod, item: &'a str) -> &'a str {
        if !method.calls_tool() {
            return item;
        }
        match self.tool(item) {
            Some((tool, _)) => tool.original_name(),
            None => self.known(item).map_or(item, |tool| &tool.name),
        }
    }

    /// The reason why callers may not use an item that is there, for the operator. `item` is the name or URI of a request
    /// with this method.
    pub(super) fn denial(&self, method: McpMethod, item: &str) -> Option<Denial> {
        let (access, group, all) = match &self.seen_by {
            SeenBy::All => return None,
            SeenBy::Nobody => {
                let reason = "denied: there is no such view for this caller";
                return Some(Denial::new(DeniedBy::View, reason));
            }
            SeenBy::Group(access, group, all) => (access, *group, all),
        };
        let (denied, is_here) = match method {
            McpMethod::CallTool | McpMethod::Seed001CallTool => {
                let tool = AccessItem::of_tool(self.known(item)?);
                (tool, self.tool(item).is_some())
            }
            McpMethod::GetPrompt | McpMethod::Complete if all.prompt(item).is_some() => {
                (AccessItem::Prompt(item), self.prompt(item).is_some())
            }
            McpMethod::ReadResource | McpMethod::Subscribe | McpMethod::Complete => {
                (AccessItem::Resource(item), self.allows_uri(item))
            }
            _ => return None,
        };
        match is_here {
            true => None,
            false => access.denial(group, denied),
        }
    }

    /// The error of a call to the tool `name`, which is not in the catalog but may be later.
    pub(super) fn why_missing(&self, name: &str) -> Option<ToolError> {
        self.items.why_missing.as_ref()?(name)
    }

    fn listed_tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let tools = self.items.tools.iter().map(|(tool, _)| tool);
        tools.filter(|tool| tool.is_listed)
    }

    pub(super) fn tool_names(&self) -> Vec<String> {
        self.listed_tools().map(|tool| tool.name.clone()).collect()
    }

    /// The result of `tools/list`, with the fields of the era.
    pub(super) fn tool_list(&self, era: Era) -> &Json {
        self.tools_with(match era {
            Era::Legacy(Revision::V2025_11_25) if self.has_tasks => Detail::Tasks,
            _ if era.knows(Revision::V2025_06_18) => Detail::Full,
            _ if era.knows(Revision::V2025_03_26) => Detail::Annotated,
            _ => Detail::Basic,
        })
    }

    /// The list of its tools: an array in seed 001 (`mcp.listTools`), and else the result of `tools/list`.
    pub(super) fn tools_with(&self, detail: Detail) -> &Json {
        self.lists.tools[detail as usize].get_or_init(|| {
            let tools = self.listed_tools().map(|tool| tool.encode(detail));
            let array = array(tools);
            let list = match detail {
                Detail::Seed001 => array,
                _ => format!(r#"{{"tools":{array}}}"#),
            };
            Json::from(list)
        })
    }

    /// True if callers may use this URI, or template, if there is one.
    pub(super) fn allows_uri(&self, uri: &str) -> bool {
        match &self.seen_by {
            SeenBy::All => true,
            SeenBy::Group(access, group, _) => access.allows_uri(*group, uri),
            SeenBy::Nobody => false,
        }
    }

    /// True if callers may use all items.
    pub(super) fn is_open(&self) -> bool {
        match &self.seen_by {
            SeenBy::All => true,
            SeenBy::Group(access, group, _) => access.is_open(*group),
            SeenBy::Nobody => false,
        }
    }

    pub(super) fn title(&self) -> Option<&str> {
        self.items.title.as_deref()
    }

    /// The `serverInfo` of modern results.
    pub(super) fn modern_meta(&self) -> &str {
        &self.modern_meta
    }

    /// All resources and templates if this URI may be used, else none. Which of them has it is for the caller
    /// to find out.
    pub(super) fn resources_for(&self, uri: &str) -> &BoundItems<ResourceDefinition> {
        static NONE: BoundItems<ResourceDefinition> = Vec::new();
        match self.allows_uri(uri) {
            true => &self.items.resources,
            false => &NONE,
        }
    }

    /// The result of `resources/list`, or of `resources/templates/list`.
    pub(super) fn resource_list(&self, templates: bool) -> &Json {
        self.lists.resources[usize::from(templates)].get_or_init(|| {
            let definitions = self.items.resources.iter().map(|(resource, _)| resource);
            let listed = definitions.filter(|resource| {
                resource.is_template() == templates
                    && (!templates || self.allows_uri(&resource.uri))
            });
            let name = ["resources", "resourceTemplates"][usize::from(templates)];
            list(name, listed.map(ResourceDefinition::encode))
        })
    }

    pub(super) fn prompt(&self, name: &str) -> Option<&(PromptDefinition, Arc<dyn BoundPrompt>)> {
        let mut prompts = self.items.prompts.iter();
        prompts.find(|(prompt, _)| prompt.name == name)
    }

    /// The result of `prompts/list`.
    pub(super) fn prompt_list(&self) -> &Json {
        let prompts = || self.items.prompts.iter().map(|(prompt, _)| prompt.encode());
        self.lists
            .prompts
            .get_or_init(|| list("prompts", prompts()))
    }

    /// Instructions for the model; empty for none.
    pub(super) fn instructions(&self) -> &str {
        &self.items.instructions
    }

    pub(super) fn hashes(&self) -> ListHashes {
        *self.lists.hashes.get_or_init(|| {
            let hash = |lists: &[&Json]| {
                let mut hasher = DefaultHasher::new();
                let lists = lists.iter();
                lists.for_each(|list| list.as_str().hash(&mut hasher));
                hasher.finish()
            };
            [
                hash(&[self.tools_with(Detail::Full)]),
                hash(&[self.resource_list(false), self.resource_list(true)]),
                hash(&[self.prompt_list()]),
            ]
        })
    }
}

/// A result with one member: an array of encoded items.
fn list(name: &str, items: impl Iterator<Item = String>) -> Json {
    Json::from(format!(r#"{{"{name}":{}}}"#, array(items)))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Adds the items of `more` whose names are not taken in `own`.
fn add<D: Definition>(own: &mut BoundItems<D>, mut more: BoundItems<D>) {
    let is_free = |id: &str| own.iter().all(|(other, _)| other.id() != id);
    more.retain(|(definition, _)| is_free(definition.id()));
    own.append(&mut more);
}

/// Joins two texts by a line end, if neither is empty.
fn joined(one: &str, other: &str) -> String {
    let separator = match one.is_empty() || other.is_empty() {
        true => "",
        false => "\n",
    };
    [one, separator, other].concat()
}

impl Server {
    /// Lists `more` after the server's own items, in place of what was published before, and
    /// announces the lists that have changed. An item with the name of one of the server's own is
    /// left out, so that nothing shadows those. A read-only server leaves out tools that change anything.
    pub fn publish(&self, mut more: ServerItems) {
        if self.is_read_only() {
            more.tools
                .retain(|(tool, _)| tool.effect == Effect::ReadOnly);
        }
        let mut items = self.own_items.clone();
        add(&mut items.tools, more.tools);
        add(&mut items.resources, more.resources);
        add(&mut items.prompts, more.prompts);
        items.why_missing = match (items.why_missing, more.why_missing) {
            (Some(own), Some(more)) => {
                Some(Arc::new(move |tool: &str| own(tool).or_else(|| more(tool))))
            }
            (own, more) => own.or(more),
        };
        items.access = more.access;
        items.instructions = joined(&items.instructions, &more.instructions);
        *self.published.write() = Arc::new(Published::new(items, &self.identity));
        if let Some(changes) = &self.features.changes {
            changes.published();
        }
    }

    /// The timeout of a tool call.
    pub fn call_timeout(&self) -> std::time::Duration {
        self.settings.call_timeout
    }

    /// True if no tool may change anything (`--read-only`).
    pub fn is_read_only(&self) -> bool {
        self.features.read_only
    }

    /// True if there is a tool of this name now; toolsets and `--read-only` leave some out.
    pub fn has_tool(&self, name: &str) -> bool {
        self.catalog().tool(name).is_some()
    }

    /// True if the role of a token counts.
    pub fn has_roles(&self) -> bool {
        self.access().is_some_and(|access| access.has_roles())
    }

    /// The [`tokens`](crate::tool::tokens()) of all listed tools.
    pub fn listed_tokens(&self) -> usize {
        let catalog = self.catalog();
        catalog.listed_tools().map(ToolDefinition::tokens).sum()
    }

    /// True if it relays items of other servers.
    pub fn relays(&self) -> bool {
        self.features.relays
    }

    /// True if there are views.
    pub fn has_views(&self) -> bool {
        self.access()
            .is_some_and(|access| !access.views().is_empty())
    }

    /// The names of the views for callers whose token belongs to this principal.
    pub fn views(&self, principal: Option<&Principal>) -> Vec<Arc<str>> {
        let Some(access) = self.access() else {
            return Vec::new();
        };
        let mut names = access.views();
        names.retain(|name| access.group(principal, Some(name)).is_some());
        names
    }

    /// The view with this name, if there is one for callers whose token belongs to this principal.
    pub fn view(&self, principal: Option<&Principal>, name: &str) -> Option<Arc<str>> {
        let mut views = self.views(principal).into_iter();
        views.find(|view| **view == *name)
    }

    fn access(&self) -> Option<Arc<dyn Access>> {
        self.catalog().items.access.clone()
    }

    fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published.read())
    }

    /// The current catalog with all items.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.published().all)
    }

    /// The current catalog as this caller sees it.
    pub(super) fn catalog_of(&self, caller: &Caller) -> Arc<Catalog> {
        let principal = caller.principal().map(|principal| &**principal);
        let view = caller.view.as_deref();
        self.published().of(principal, view, &self.identity)
    }

    pub(super) fn has_resources(&self) -> bool {
        self.features.relays || !self.catalog().items.resources.is_empty()
    }

    pub(super) fn has_prompts(&self) -> bool {
        self.features.relays || !self.catalog().items.prompts.is_empty()
    }

    /// The `ServerCapabilities` of the specification.
    pub(super) fn capabilities(&self) -> Value {
        let ServerFeatures {
            changes,
            logging,
            experimental,
            relays,
            ..
        } = &self.features;
        let list = |with_subscriptions: bool| match (changes.is_some(), with_subscriptions) {
            (true, true) => json!({"listChanged": true, "subscribe": true}),
            (true, false) => json!({"listChanged": true}),
            (false, _) => json!({}),
        };
        let mut capabilities = json!({"tools": list(false)});
        if self.has_resources() {
            capabilities["resources"] = list(true);
        }
        if self.has_prompts() {
            capabilities["prompts"] = list(false);
        }
        let ServerItems {
            prompts, resources, ..
        } = &self.catalog().items;
        let completes = |(resource, _): &(ResourceDefinition, _)| resource.is_template();
        if *relays || !prompts.is_empty() || resources.iter().any(completes) {
            capabilities["completions"] = json!({});
        }
        if *logging {
            capabilities["logging"] = json!({});
        }
        if !experimental.is_empty() {
            capabilities["experimental"] = json!(experimental);
        }
        capabilities
    }
}
