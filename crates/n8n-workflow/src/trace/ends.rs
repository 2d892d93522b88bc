//! Finds the nodes at which an execution ended, besides the one that ran last.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::data::{InputSource, ResultData};
use crate::Workflow;
use crate::node_type::last_part;

/// One run of a node, without its items.
#[derive(Deserialize)]
struct Passed {
    #[serde(default)]
    source: Vec<Option<InputSource>>,
    data: Option<HashMap<String, Vec<Option<Vec<IgnoredAny>>>>>,
}

impl ResultData {
    /// The nodes besides the last whose items no other node took.
    pub fn other_ends(&self) -> Vec<String> {
        let (mut ends, mut taken) = (Vec::new(), HashSet::new());
        for (name, runs) in &self.run_data {
            let runs: Vec<Passed> = serde_json::from_str(runs.get()).unwrap_or_default();
            let outputs = runs.iter().filter_map(|run| run.data.as_ref()?.get("main"));
            let mut outputs = outputs.flatten().flatten();
            if outputs.any(|items| !items.is_empty())
                && Some(name) != self.last_node_executed.as_ref()
            {
                ends.push(name.clone());
            }
            let sources = runs.into_iter().flat_map(|run| run.source).flatten();
            taken.extend(sources.map(|source| source.previous_node));
        }
        ends.retain(|name| !taken.contains(name));
        ends.sort_unstable();
        ends
    }

    /// True if the last node is a filter: its second output are the items that it leaves out.
    pub(super) fn ends_with_filter(&self, workflow: Option<&RawValue>) -> bool {
        let workflow = workflow.and_then(|raw| serde_json::from_str::<Workflow>(raw.get()).ok());
        let nodes = workflow.into_iter().flat_map(|workflow| workflow.nodes);
        let mut last = nodes.filter(|node| Some(&node.name) == self.last_node_executed.as_ref());
        last.next()
            .is_some_and(|node| last_part(&node.kind) == "filter")
    }
}
