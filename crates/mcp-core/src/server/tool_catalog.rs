//! The tools of a server with their encoded lists.

use std::collections::HashMap;
use std::sync::Arc;

use crate::era::Era;
use crate::http_headers::{HeaderParam, header_params};
use crate::jsonrpc::Json;
use crate::registry::BoundItems;
use crate::revision::Revision;
use crate::tool::{BoundTool, Detail, TaskSupport, ToolDefinition, ToolKind};

/// The tools, by name, and their lists in each detail.
pub(super) struct ToolCatalog {
    tools: BoundItems<ToolKind>,
    by_name: HashMap<String, usize>,
    /// The arguments that clients repeat in headers, of the tools that have such arguments.
    header_params: HashMap<String, Vec<HeaderParam>>,
    seed_001: Json,
    basic: Json,
    annotated: Json,
    /// With all fields.
    pub(super) full: Json,
    /// `None` if no tool may run as a task.
    with_tasks: Option<Json>,
}

impl ToolCatalog {
    pub(super) fn new(tools: BoundItems<ToolKind>) -> Self {
        let numbered = || tools.iter().map(|(tool, _)| tool).enumerate();
        let aliases = numbered().flat_map(|(at, tool)| tool.aliases.iter().map(move |n| (n, at)));
        let names = numbered().map(|(at, tool)| (&tool.name, at));
        // Names come last, so that no alias hides a name.
        let by_name = aliases.chain(names).map(|(name, at)| (name.clone(), at));
        // A relayed tool may declare invalid headers: then it has none.
        let params = |tool: &ToolDefinition| header_params(&tool.input_schema).unwrap_or_default();
        let header_params = numbered().map(|(_, tool)| (tool.name.clone(), params(tool)));
        let array = |detail| {
            let listed = numbered().filter(|(_, tool)| tool.is_listed);
            let items: Vec<String> = listed.map(|(_, tool)| tool.encode(detail)).collect();
            format!("[{}]", items.join(","))
        };
        let list = |detail| Json::Owned(format!(r#"{{"tools":{}}}"#, array(detail))).shared();
        let has_tasks = numbered().any(|(_, tool)| tool.task != TaskSupport::Never);
        Self {
            by_name: by_name.collect(),
            header_params: header_params.filter(|(_, all)| !all.is_empty()).collect(),
            seed_001: Json::Owned(array(Detail::Seed001)).shared(),
            basic: list(Detail::Basic),
            annotated: list(Detail::Annotated),
            full: list(Detail::Full),
            with_tasks: has_tasks.then(|| list(Detail::Tasks)),
            tools,
        }
    }

    /// The result of `mcp.listTools`: an array.
    pub(super) fn seed_001_list(&self) -> &Json {
        &self.seed_001
    }

    /// The result of `tools/list`, with the fields of the era.
    pub(super) fn list(&self, era: Era) -> &Json {
        if let (Era::Legacy(Revision::V2025_11_25), Some(list)) = (era, &self.with_tasks) {
            list
        } else if era.knows(Revision::V2025_06_18) {
            &self.full
        } else if era.knows(Revision::V2025_03_26) {
            &self.annotated
        } else {
            &self.basic
        }
    }

    /// True if some tool may run as a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.with_tasks.is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&(ToolDefinition, Arc<dyn BoundTool>)> {
        self.by_name.get(name).and_then(|&at| self.tools.get(at))
    }

    /// The arguments of the tool `name` that clients repeat in headers.
    pub(super) fn header_params(&self, name: &str) -> &[HeaderParam] {
        self.header_params.get(name).map_or(&[], Vec::as_slice)
    }

    /// The names of the listed tools.
    pub(super) fn names(&self) -> Vec<String> {
        let listed = self.tools.iter().filter(|(tool, _)| tool.is_listed);
        listed.map(|(tool, _)| tool.name.clone()).collect()
    }
}
