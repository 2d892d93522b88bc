//! The tools of a server and the lists of them, written once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::era::Era;
use crate::http_headers::{HeaderParam, header_params};
use crate::jsonrpc::Json;
use crate::registry::BoundItems;
use crate::revision::Revision;
use crate::tool::{BoundTool, Detail, TaskSupport, ToolDefinition, ToolKind};

/// The tools, by name, and their lists.
pub(super) struct ToolCatalog {
    tools: BoundItems<ToolKind>,
    by_name: HashMap<String, usize>,
    /// The arguments that clients repeat in headers, of the tools that have any.
    header_params: HashMap<String, Vec<HeaderParam>>,
    legacy: Json,
    basic: Json,
    annotated: Json,
    /// With every field that there is.
    pub(super) full: Json,
    /// `None` if no tool may run as a task.
    with_tasks: Option<Json>,
}

impl ToolCatalog {
    pub(super) fn new(tools: BoundItems<ToolKind>) -> Self {
        let names = tools
            .iter()
            .enumerate()
            .flat_map(|(at, (tool, _))| tool.aliases.iter().map(move |name| (name.clone(), at)));
        let mut by_name: HashMap<String, usize> = names.collect();
        // No alias hides a name.
        by_name.extend(
            tools
                .iter()
                .enumerate()
                .map(|(at, (tool, _))| (tool.name.clone(), at)),
        );
        // A tool from elsewhere may be wrong about it: then it has none.
        let params = |tool: &ToolDefinition| header_params(&tool.input_schema).unwrap_or_default();
        let header_params = tools
            .iter()
            .map(|(tool, _)| (tool.name.clone(), params(tool)))
            .filter(|(_, params)| !params.is_empty())
            .collect();
        let array = |detail| {
            let listed = tools.iter().filter(|(tool, _)| tool.is_listed);
            let items: Vec<String> = listed.map(|(tool, _)| tool.encode(detail)).collect();
            format!("[{}]", items.join(","))
        };
        let list = |detail| Json::Owned(format!(r#"{{"tools":{}}}"#, array(detail))).shared();
        Self {
            legacy: Json::Owned(array(Detail::Seed001)).shared(),
            basic: list(Detail::Basic),
            annotated: list(Detail::Annotated),
            full: list(Detail::Full),
            with_tasks: tools
                .iter()
                .any(|(tool, _)| tool.task != TaskSupport::Never)
                .then(|| list(Detail::Tasks)),
            tools,
            by_name,
            header_params,
        }
    }

    /// The result of `mcp.listTools`: a bare array.
    pub(super) fn legacy(&self) -> &Json {
        &self.legacy
    }

    /// The result of `tools/list`, with the fields that the era knows.
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

    pub(super) fn names(&self) -> Vec<String> {
        self.tools
            .iter()
            .filter(|(tool, _)| tool.is_listed)
            .map(|(tool, _)| tool.name.clone())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        let listed = self.tools.iter().filter(|(tool, _)| tool.is_listed);
        listed.count()
    }
}
