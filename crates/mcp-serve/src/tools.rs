//! The tools of a product: its toolset, and its functions, which belong to the default toolset.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use mcp_core::registry::BoundItems;
use mcp_core::server::WhyMissing;
use mcp_core::tool::{
    ALL_TOOLSETS, BoundTool, Call, DEFAULT_TOOLSET, Effect, Output, Tool, ToolDefinition,
    ToolError, ToolKind, Toolset,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use crate::{Options, Service};

pub(crate) struct ProductTools<S> {
    toolset: Toolset<S>,
    functions: BoundItems<ToolKind>,
    /// The tools that the options leave out, each with the answer to a call of it.
    left_out: HashMap<String, String>,
}

impl<S: Send + Sync + 'static> ProductTools<S> {
    pub(crate) fn new(toolset: Toolset<S>, functions: BoundItems<ToolKind>) -> Self {
        Self {
            toolset,
            functions,
            left_out: HashMap::new(),
        }
    }

    /// Returns the names of the toolsets, in order.
    pub(crate) fn groups(&self) -> Vec<&'static str> {
        let mut groups = self.toolset.groups();
        if !self.functions.is_empty() && !groups.contains(&DEFAULT_TOOLSET) {
            groups.insert(0, DEFAULT_TOOLSET);
        }
        groups
    }

    /// Keeps the tools that `--toolsets` and `--read-only` choose.
    pub(crate) fn choose(mut self, options: &Options) -> anyhow::Result<Self> {
        let groups = self.groups();
        let group = |name: &str| self.toolset.group_of(name).unwrap_or(DEFAULT_TOOLSET);
        let declared = self.names().into_iter();
        let declared: Vec<_> = declared.map(|name| (group(&name), name)).collect();
        let mut chosen = options.toolsets.clone();
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
        let of_toolsets = self.names();
        if options.read_only {
            self.toolset = self.toolset.read_only();
            self.functions
                .retain(|(tool, _)| tool.effect == Effect::ReadOnly);
        }
        let offered = self.names();
        for (group, name) in declared {
            let why = match of_toolsets.contains(&name) {
                true if offered.contains(&name) => continue,
                true => format!("This server is read-only, and {name} changes something."),
                false => format!(
                    "{name} is in the toolset {group}, which this server does not offer. Whoever starts the server \
                     can add it: --toolsets {},{group}",
                    options.toolsets.join(",")
                ),
            };
            self.left_out.insert(name, why);
        }
        Ok(self)
    }

    fn names(&self) -> HashSet<String> {
        let functions = self.functions.iter().map(|(tool, _)| &tool.name);
        self.toolset.names().chain(functions).cloned().collect()
    }

    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        let functions = self.functions.iter().map(|(tool, _)| tool.clone());
        self.toolset
            .definitions()
            .into_iter()
            .chain(functions)
            .collect()
    }

    /// Returns the function that explains the tools which are left out.
    pub(crate) fn why_missing(&mut self) -> WhyMissing {
        let left_out = std::mem::take(&mut self.left_out);
        Arc::new(move |tool: &str| left_out.get(tool).map(ToolError::forbidden))
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
                .map(|(mut definition, tool)| {
                    definition.max_bytes.get_or_insert(max);
                    (definition, tool)
                })
                .collect(),
        }
    }
}

/// The arguments `A` of the function `F`.
struct FunctionTool<A, F>(A, PhantomData<fn(F)>);

impl<'de, A: Deserialize<'de>, F> Deserialize<'de> for FunctionTool<A, F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        A::deserialize(deserializer).map(|arguments| Self(arguments, PhantomData))
    }
}

impl<A: JsonSchema, F> JsonSchema for FunctionTool<A, F> {
    fn schema_name() -> Cow<'static, str> {
        A::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        A::json_schema(generator)
    }
}

impl<A, F, R, T> Tool for FunctionTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: Output + 'static,
{
    /// The bound definition has the real name and effect, which are known at run time only.
    const NAME: &'static str = "function";
    const EFFECT: Effect = Effect::Destructive;
    type Service = F;
    type Output = T;

    fn call(self, function: &F, _: &Call) -> impl Future<Output = Result<T, ToolError>> + Send {
        function(self.0)
    }
}

/// Returns `function` as a tool.
///
/// # Panics
/// If the name is illegal or `A` has no doc comment.
pub(crate) fn bind_function<A, F, R, T>(
    name: &str,
    effect: Effect,
    function: F,
) -> (ToolDefinition, Arc<dyn BoundTool>)
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: Output + 'static,
{
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(
        (1..=64).contains(&name.len()) && name.chars().all(is_legal),
        "illegal tool name {name:?}"
    );
    let tools = Toolset::new().with::<FunctionTool<A, F>>();
    let (mut definition, tool) = tools.bind(&Arc::new(function)).remove(0);
    definition.name = name.to_owned();
    definition.effect = effect;
    (definition, tool)
}
