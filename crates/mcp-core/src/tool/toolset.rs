//! The tools of a server: declared without a service, then bound to one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::arguments::{ArgumentError, parse_arguments};
use super::{Call, Definition, Effect, Output, Tool, ToolError, ToolResult};

/// The toolset of what is declared outside of any [`Toolset::group`], and the one that is offered
/// unless others are chosen.
pub const DEFAULT: &str = "default";

/// The toolsets that people choose to mean all.
pub const ALL: &str = "all";

/// The tools that work on a service of type `S`, in the order in which they are listed.
pub struct Toolset<S> {
    tools: Vec<Declared<S>>,
}

struct Declared<S> {
    /// The toolset that it is in.
    group: &'static str,
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
            group: DEFAULT,
            definition: Definition::of::<T>(),
            bind: |service| Arc::new(Bound::<T> { service }),
        });
        self
    }

    /// Adds the tools of `set` as the toolset `name`, which is offered only where it is chosen.
    ///
    /// # Panics
    /// When a name is taken: found by the first test.
    #[must_use]
    pub fn group(mut self, name: &'static str, set: Self) -> Self {
        assert!(
            name != ALL && !self.groups().contains(&name),
            "toolset {name} is declared twice"
        );
        for tool in set.tools {
            let taken = |other: &Declared<S>| other.definition.name == tool.definition.name;
            assert!(
                !self.tools.iter().any(taken),
                "tool {} is declared twice",
                tool.definition.name
            );
            self.tools.push(Declared {
                group: name,
                ..tool
            });
        }
        self
    }

    /// The names of the toolsets, in order.
    pub fn groups(&self) -> Vec<&'static str> {
        let mut groups: Vec<_> = self.tools.iter().map(|tool| tool.group).collect();
        groups.dedup();
        groups
    }

    /// Keeps the tools of the toolsets that are `chosen`: some of [`Toolset::groups`], or [`ALL`].
    ///
    /// # Errors
    /// The first name that is none of them.
    pub fn choose(mut self, chosen: &[String]) -> Result<Self, String> {
        let groups = self.groups();
        let unknown = chosen
            .iter()
            .find(|name| *name != ALL && !groups.contains(&name.as_str()));
        if let Some(unknown) = unknown {
            return Err(unknown.clone());
        }
        if !chosen.iter().any(|name| name == ALL) {
            self.tools
                .retain(|tool| chosen.iter().any(|name| name == tool.group));
        }
        Ok(self)
    }

    /// Keeps the tools whose definition `is_kept`.
    #[must_use]
    pub fn retain(mut self, is_kept: impl Fn(&Definition) -> bool) -> Self {
        self.tools.retain(|tool| is_kept(&tool.definition));
        self
    }

    /// Keeps only the tools that change nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.retain(|tool| tool.effect == Effect::ReadOnly)
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

    /// Counts again.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Recount {}

    impl Tool for Recount {
        const NAME: &'static str = "recount";
        const EFFECT: Effect = Effect::ReadOnly;
        type Service = ();
        type Output = ToolResult;
        async fn call(self, (): &(), _: &Call) -> Result<ToolResult, ToolError> {
            Ok(ToolResult::Content(Vec::new()))
        }
    }

    #[test]
    fn toolsets_are_chosen_by_name() {
        let tools = || {
            Toolset::new()
                .with::<Count>()
                .group("more", Toolset::new().with::<Recount>())
        };
        let chosen = |names: &[&str]| -> Result<Vec<String>, String> {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let tools = tools().choose(&names)?.definitions();
            Ok(tools.into_iter().map(|tool| tool.name).collect())
        };
        assert_eq!(tools().groups(), ["default", "more"]);
        assert_eq!(chosen(&["default"]).unwrap(), ["count"]);
        assert_eq!(chosen(&["more"]).unwrap(), ["recount"]);
        assert_eq!(chosen(&["all"]).unwrap(), ["count", "recount"]);
        assert_eq!(chosen(&["more", "less"]), Err("less".to_owned()));
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
