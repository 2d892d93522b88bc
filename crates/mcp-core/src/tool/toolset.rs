//! The tools of a server: declared without a service, then bound to one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::arguments::{ArgumentError, parse_arguments};
use super::{Call, Definition, Effect, Output, Tool, ToolError, ToolResult};

/// The tools that work on a service of type `S`, in the order in which they are listed.
pub struct Toolset<S> {
    tools: Vec<Declared<S>>,
}

struct Declared<S> {
    definition: Definition,
    bind: fn(Arc<S>) -> Arc<dyn BoundTool>,
}

/// A running tool call.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send + 'a>>;

/// A tool together with the service that it works on.
pub trait BoundTool: Send + Sync {
    /// Reads the arguments and starts the call.
    ///
    /// # Errors
    /// Nothing was started: the arguments do not fit.
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<Running<'a>, ArgumentError>;
}

impl<S: Send + Sync + 'static> Toolset<S> {
    /// No tools.
    pub fn new() -> Self {
        Self { tools: Vec::new() }
    }

    /// Adds one tool.
    ///
    /// # Panics
    /// When the name is taken or the declaration is incomplete: both are found by the first test.
    #[must_use]
    pub fn with<T: Tool<Service = S>>(mut self) -> Self {
        let taken = self
            .tools
            .iter()
            .any(|tool| tool.definition.name == T::NAME);
        assert!(!taken, "tool {} is declared twice", T::NAME);
        self.tools.push(Declared {
            definition: Definition::of::<T>(),
            bind: |service| Arc::new(Bound::<T> { service }),
        });
        self
    }

    /// Keeps only the tools that change nothing.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.tools
            .retain(|tool| tool.definition.effect == Effect::ReadOnly);
        self
    }

    /// The definitions, in order.
    pub fn definitions(&self) -> Vec<Definition> {
        self.tools
            .iter()
            .map(|tool| tool.definition.clone())
            .collect()
    }

    /// Hands the tools their service.
    pub fn bind(self, service: &Arc<S>) -> Vec<(Definition, Arc<dyn BoundTool>)> {
        let bind = |tool: Declared<S>| (tool.definition, (tool.bind)(Arc::clone(service)));
        self.tools.into_iter().map(bind).collect()
    }
}

impl<S: Send + Sync + 'static> Default for Toolset<S> {
    fn default() -> Self {
        Self::new()
    }
}

struct Bound<T: Tool> {
    service: Arc<T::Service>,
}

impl<T: Tool> BoundTool for Bound<T> {
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<Running<'a>, ArgumentError> {
        let tool = parse_arguments::<T>(arguments)?;
        Ok(Box::pin(async move {
            let output = tool.call(&self.service, call).await?;
            output.into_result().map_err(|error| {
                ToolError::upstream("The result could not be written as JSON.").caused_by(error)
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    /// Counts.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Count {}

    impl Tool for Count {
        const NAME: &'static str = "count";
        const EFFECT: Effect = Effect::Additive;
        type Service = ();
        type Output = ToolResult;
        async fn call(self, (): &(), _: &Call) -> Result<ToolResult, ToolError> {
            Ok(ToolResult::Content(Vec::new()))
        }
    }

    #[test]
    #[should_panic(expected = "declared twice")]
    fn names_are_unique() {
        let _ = Toolset::new().with::<Count>().with::<Count>();
    }

    #[test]
    fn read_only_hides_what_changes() {
        assert!(
            Toolset::new()
                .with::<Count>()
                .read_only()
                .definitions()
                .is_empty()
        );
    }
}
