//! The tools of a product: its toolset, and its functions, which belong to the default toolset.

use std::sync::Arc;

use mcp_core::registry::BoundItems;
use mcp_core::tool::{
    ALL_TOOLSETS, DEFAULT_TOOLSET, Effect, ToolDefinition, ToolKind, Toolset, limited,
};

use crate::{Options, Service};

pub(crate) struct ProductTools<S> {
    pub(crate) toolset: Toolset<S>,
    pub(crate) functions: BoundItems<ToolKind>,
}

impl<S: Send + Sync + 'static> ProductTools<S> {
    /// Returns the names of the toolsets, in order.
    pub(crate) fn groups(&self) -> Vec<&'static str> {
        let mut groups = self.toolset.groups();
        if !self.functions.is_empty() && !groups.contains(&DEFAULT_TOOLSET) {
            groups.insert(0, DEFAULT_TOOLSET);
        }
        groups
    }

    /// Keeps the tools that `--toolsets` and `--read-only` choose.
    ///
    /// # Errors
    /// If `--toolsets` contains an unknown name.
    pub(crate) fn choose(mut self, options: &Options) -> anyhow::Result<Self> {
        let (groups, mut chosen) = (self.groups(), options.toolsets.clone());
        let is_default = |name: &String| name == DEFAULT_TOOLSET || name == ALL_TOOLSETS;
        if !chosen.iter().any(is_default) {
            self.functions.clear();
        }
        if !self.toolset.groups().contains(&DEFAULT_TOOLSET) && groups.contains(&DEFAULT_TOOLSET) {
            chosen.retain(|name| name != DEFAULT_TOOLSET);
        }
        let toolset = self.toolset.choose(&chosen).map_err(|unknown| {
            let names = groups.join(", ");
            anyhow::anyhow!("--toolsets: there is no toolset {unknown:?}; there are all, {names}")
        });
        self.toolset = toolset?;
        if options.read_only {
            self.toolset = self.toolset.read_only();
            self.functions
                .retain(|(tool, _)| tool.effect == Effect::ReadOnly);
        }
        Ok(self)
    }

    /// Returns the definitions, in order.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        let functions = self.functions.iter().map(|(tool, _)| tool.clone());
        self.toolset
            .definitions()
            .into_iter()
            .chain(functions)
            .collect()
    }

    /// Gives the tools their service, and a bound of their results.
    pub(crate) fn bind(self, service: &Arc<S>) -> BoundItems<ToolKind>
    where
        S: Service,
    {
        let tools = self.toolset.bind(service).into_iter();
        let tools = tools.chain(self.functions);
        match S::MAX_RESULT_BYTES {
            usize::MAX => tools.collect(),
            max => tools
                .map(|(definition, tool)| match tool.bounds_its_result() {
                    true => (definition, tool),
                    false => (definition, limited(tool, max)),
                })
                .collect(),
        }
    }
}
