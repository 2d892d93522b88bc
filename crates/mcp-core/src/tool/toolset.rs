//! The tools of a server: declared without a service, then bound to one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Call, Definition, Effect, Output, Tool, ToolError, ToolResult};

/// The tools that work on a service of type `S`, in the order in which they are listed.
pub struct Toolset<S> {
    tools: Vec<Declared<S>>,
}

struct Declared<S> {
    definition: Definition,
    bind: fn(Arc<S>) -> Arc<dyn BoundTool>,
}

/// Arguments that do not fit the tool's schema.
#[derive(Debug)]
pub struct ArgumentError {
    /// Path of the field at fault, as `a.b[0]`; empty where it is the arguments as a whole.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
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
        let tool = parse::<T>(arguments)?;
        Ok(Box::pin(async move {
            let output = tool.call(&self.service, call).await?;
            output.into_result().map_err(|error| {
                ToolError::upstream("The result could not be written as JSON.").caused_by(error)
            })
        }))
    }
}

fn parse<T: Tool>(arguments: &RawValue) -> Result<T, ArgumentError> {
    // A serde struct would read an array as its fields in order.
    if !arguments.get().starts_with('{') {
        return Err(ArgumentError {
            field: String::new(),
            reason: "arguments must be a JSON object".into(),
        });
    }
    // The path of the field costs time, so only a failure pays for it.
    serde_json::from_str(arguments.get()).or_else(|_| {
        let mut deserializer = serde_json::Deserializer::from_str(arguments.get());
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            ArgumentError {
                field: field(path, error.inner()),
                reason: reason(error.inner()),
            }
        })
    })
}

/// The field at fault: the path, or the field that the message names where the fault is the
/// enclosing object's.
fn field(path: String, error: &serde_json::Error) -> String {
    if path != "." {
        return path;
    }
    let text = error.to_string();
    text.split('`').nth(1).unwrap_or_default().to_owned()
}

/// The message without its position: the model wrote an object, not lines and columns.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rfind(" at line ")
        .map_or(text.clone(), |end| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    /// Counts.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Count {
        #[expect(dead_code, reason = "only parsed")]
        step: u8,
        #[expect(dead_code, reason = "only parsed")]
        #[serde(default)]
        tags: Vec<String>,
    }

    impl Tool for Count {
        const NAME: &'static str = "count";
        const EFFECT: Effect = Effect::Additive;
        type Service = ();
        type Output = ToolResult;
        async fn call(self, (): &(), _: &Call) -> Result<ToolResult, ToolError> {
            Ok(ToolResult::Content(Vec::new()))
        }
    }

    #[track_caller]
    fn check(arguments: &str, field: &str, reason: &str) {
        let raw = RawValue::from_string(arguments.to_owned()).unwrap();
        let error = parse::<Count>(&raw).unwrap_err();
        assert_eq!(
            (error.field.as_str(), error.reason.as_str()),
            (field, reason),
            "{arguments}"
        );
    }

    #[test]
    fn a_bad_argument_is_named() {
        check("[1]", "", "arguments must be a JSON object");
        check("{}", "step", "missing field `step`");
        check(
            r#"{"step":1,"x":2}"#,
            "x",
            "unknown field `x`, expected `step` or `tags`",
        );
        check(
            r#"{"step":"1"}"#,
            "step",
            "invalid type: string \"1\", expected u8",
        );
        check(
            r#"{"step":1,"tags":["a",2]}"#,
            "tags[1]",
            "invalid type: integer `2`, expected a string",
        );
        check(
            r#"{"step":300}"#,
            "step",
            "invalid value: integer `300`, expected u8",
        );
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
