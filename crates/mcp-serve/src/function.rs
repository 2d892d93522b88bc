//! Tools that are functions: the function takes the place of the service of a [`Tool`].

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use mcp_core::tool::{BoundTool, Call, Effect, Output, Tool, ToolDefinition, ToolError, Toolset};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

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
    /// [`bind`] sets the real name and effect, which are known at run time only.
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
pub(crate) fn bind<A, F, R, T>(
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
