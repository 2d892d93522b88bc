//! The tools of a product that its options leave, and the reasons why the others are missing.

use std::collections::HashMap;
use std::sync::Arc;

use mcp_core::registry::BoundItems;
use mcp_core::server::WhyMissing;
use mcp_core::tool::{DEFAULT_TOOLSET, ToolDefinition, ToolError, Toolset};

use crate::{Options, Problem, Service};

pub(crate) struct ChosenTools<S> {
    pub(crate) toolset: Toolset<S>,
    /// The tools that the options leave out, each with the answer to a call of it.
    left_out: HashMap<String, String>,
}

impl<S: Service> ChosenTools<S> {
    /// Keeps the tools that `--toolsets` and `--read-only` choose.
    pub(crate) fn new(all: Toolset<S>, options: &Options) -> anyhow::Result<Self> {
        let groups = all.groups();
        let declared = all.names().map(|name| {
            let group = all.group_of(name).unwrap_or(DEFAULT_TOOLSET);
            (group, name.clone())
        });
        let declared: Vec<_> = declared.collect();
        let mut toolset = all.choose(&options.toolsets).map_err(|unknown| {
            let names = groups.join(", ");
            Problem::new(format!(
                "--toolsets: there is no toolset {unknown:?}; there are all, {names}"
            ))
        })?;
        let of_toolsets: Vec<String> = toolset.names().cloned().collect();
        if options.read_only {
            toolset = toolset.read_only();
        }
        let mut left_out = HashMap::new();
        for (group, name) in declared {
            let why = match of_toolsets.contains(&name) {
                true if toolset.group_of(&name).is_some() => continue,
                true => format!("This server is read-only, and {name} changes something."),
                false => format!(
                    "{name} is in the toolset {group}, which this server does not offer. Whoever starts the server \
                     can add it: --toolsets {},{group}",
                    options.toolsets.join(",")
                ),
            };
            left_out.insert(name, why);
        }
        Ok(Self { toolset, left_out })
    }

    /// Gives the tools their service, and a bound of their results. Returns also the function that explains the tools
    /// which are left out.
    pub(crate) fn bind(self, service: &Arc<S>) -> (BoundItems<ToolDefinition>, WhyMissing) {
        let mut tools = self.toolset.bind(service);
        if S::MAX_RESULT_BYTES != usize::MAX {
            for (definition, _) in &mut tools {
                definition.max_bytes.get_or_insert(S::MAX_RESULT_BYTES);
            }
        }
        let left_out = self.left_out;
        let why_missing = move |tool: &str| left_out.get(tool).map(ToolError::forbidden);
        (tools, Arc::new(why_missing))
    }
}
