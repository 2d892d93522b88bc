//! The tools of a server by name, and their encoded lists.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

use crate::era::Era;
use crate::http_headers::{HeaderParam, header_params};
use crate::jsonrpc::Json;
use crate::registry::BoundItems;
use crate::revision::Revision;
use crate::tool::{BoundTool, Detail, TaskSupport, ToolDefinition, ToolKind};

/// The tools, by name and alias.
pub(in crate::server) struct ToolCatalog {
    pub(super) tools: BoundItems<ToolKind>,
    /// The size of the definitions of all listed tools.
    listed_bytes: OnceLock<usize>,
    by_name: HashMap<String, usize, RandomState>,
    /// The arguments of each that clients repeat in headers, in the same order.
    header_params: Box<[Vec<HeaderParam>]>,
    /// True if some tool may run as a task.
    pub(in crate::server) has_tasks: bool,
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
        let header_params = numbered().map(|(_, tool)| params(tool));
        Self {
            listed_bytes: OnceLock::new(),
            by_name: by_name.collect(),
            header_params: header_params.collect(),
            has_tasks: numbered().any(|(_, tool)| tool.task != TaskSupport::Never),
            tools,
        }
    }

    /// The place of the tool with this name or alias.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, at: usize) -> Option<&(ToolDefinition, Arc<dyn BoundTool>)> {
        self.tools.get(at)
    }

    /// The size of the definitions of all listed tools, as JSON.
    pub(super) fn listed_bytes(&self) -> usize {
        *self.listed_bytes.get_or_init(|| {
            let listed = self.tools.iter().filter(|(tool, _)| tool.is_listed);
            let sizes = listed.map(|(tool, _)| tool.encode(Detail::Full).len());
            sizes.sum()
        })
    }

    /// The arguments of the tool at this place that clients repeat in headers.
    pub(super) fn header_params(&self, at: usize) -> &[HeaderParam] {
        self.header_params.get(at).map_or(&[], Vec::as_slice)
    }
}

/// The encoded lists of some tools, each made when it is asked for.
#[derive(Default)]
pub(in crate::server) struct ToolLists {
    seed_001: OnceLock<Json>,
    basic: OnceLock<Json>,
    annotated: OnceLock<Json>,
    full: OnceLock<Json>,
    with_tasks: OnceLock<Json>,
}

impl ToolLists {
    /// The result of `mcp.listTools`: an array.
    pub(super) fn seed_001<'a>(&self, tools: impl Iterator<Item = &'a ToolDefinition>) -> &Json {
        let encode = || Json::Owned(array(tools, Detail::Seed001)).shared();
        self.seed_001.get_or_init(encode)
    }

    /// The result of `tools/list` with the fields of the era. `has_tasks` is true if some tool of the server
    /// may run as a task.
    pub(super) fn list<'a>(
        &self,
        era: Era,
        has_tasks: bool,
        tools: impl Iterator<Item = &'a ToolDefinition>,
    ) -> &Json {
        let (list, detail) = match era {
            Era::Legacy(Revision::V2025_11_25) if has_tasks => (&self.with_tasks, Detail::Tasks),
            _ if era.knows(Revision::V2025_06_18) => (&self.full, Detail::Full),
            _ if era.knows(Revision::V2025_03_26) => (&self.annotated, Detail::Annotated),
            _ => (&self.basic, Detail::Basic),
        };
        let encode = || Json::Owned(format!(r#"{{"tools":{}}}"#, array(tools, detail))).shared();
        list.get_or_init(encode)
    }
}

fn array<'a>(tools: impl Iterator<Item = &'a ToolDefinition>, detail: Detail) -> String {
    let items: Vec<String> = tools.map(|tool| tool.encode(detail)).collect();
    format!("[{}]", items.join(","))
}
