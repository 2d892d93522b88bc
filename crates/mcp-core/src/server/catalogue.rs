//! The tools of a server and the lists of them, written once at the start.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::era::Era;
use crate::jsonrpc::Json;
use crate::revision::Revision;
use crate::tool::{BoundTool, Definition, Detail};

pub(super) struct Catalogue {
    tools: Vec<(Definition, Arc<dyn BoundTool>)>,
    by_name: HashMap<String, usize>,
    legacy: Json,
    basic: Json,
    annotated: Json,
    full: Json,
    /// The list of [`Self::full`] without its braces, for results that add to it.
    pub(super) tools_member: Json,
}

impl Catalogue {
    pub(super) fn new(tools: Vec<(Definition, Arc<dyn BoundTool>)>) -> Self {
        let names = tools
            .iter()
            .enumerate()
            .map(|(at, (tool, _))| (tool.name.clone(), at));
        let by_name = names.collect();
        let render =
            |detail| -> Vec<Value> { tools.iter().map(|(tool, _)| tool.render(detail)).collect() };
        let list = |detail| Json::from(json!({"tools": render(detail)})).shared();
        Self {
            legacy: Json::from(Value::Array(render(Detail::Legacy))).shared(),
            basic: list(Detail::Basic),
            annotated: list(Detail::Annotated),
            full: list(Detail::Full),
            tools_member: Json::Owned(format!(r#""tools":{}"#, Value::Array(render(Detail::Full))))
                .shared(),
            tools,
            by_name,
        }
    }

    /// The result of `mcp.listTools`: a bare array.
    pub(super) fn legacy(&self) -> Json {
        self.legacy.clone()
    }

    /// The result of `tools/list`, with the fields that the era knows.
    pub(super) fn list(&self, era: Era) -> Json {
        if era.knows(Revision::V2025_06_18) {
            self.full.clone()
        } else if era.knows(Revision::V2025_03_26) {
            self.annotated.clone()
        } else {
            self.basic.clone()
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&(Definition, Arc<dyn BoundTool>)> {
        self.by_name.get(name).and_then(|&at| self.tools.get(at))
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.tools
            .iter()
            .map(|(tool, _)| tool.name.clone())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.tools.len()
    }
}
