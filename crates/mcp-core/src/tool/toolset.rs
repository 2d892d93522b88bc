//! The tools of a server.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::arguments::{ArgumentError, parse_arguments};
use super::{Call, EarlierTask, Effect, Output, Tool, ToolDefinition, ToolError, ToolResult};
use crate::registry::{Bound, BoundItems, Definition, Item, Registry, UNGROUPED};

/// The toolset of tools outside of a [`Toolset::group`]; served unless others are chosen.
pub const DEFAULT_TOOLSET: &str = UNGROUPED;

/// The name with which users choose all toolsets.
pub const ALL_TOOLSETS: &str = "all";

/// The tools that work on a service of type `S`, in the order in which they are listed.
pub type Toolset<S> = Registry<ToolDefinition, S>;

impl Definition for ToolDefinition {
    type Bound = dyn BoundTool;
    const NOUN: &'static str = "tool";

    fn id(&self) -> &str {
        &self.name
    }
}

/// A running tool call.
pub type ToolFuture<'a> = BoxFuture<'a, Result<ToolResult, ToolError>>;

/// A call that goes on with a task that was begun before a restart; it is not started yet.
pub type FoundCall = Box<dyn FnOnce(Call) -> ToolFuture<'static> + Send>;

/// A tool together with the service that it works on.
pub trait BoundTool: Send + Sync {
    /// Parses the arguments and starts the call.
    ///
    /// # Errors
    /// Invalid arguments; nothing was started.
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<ToolFuture<'a>, ArgumentError>;

    /// [`Tool::task_reference`] of a call with these arguments.
    fn task_reference(&self, _arguments: &RawValue, _call: &Call) -> Option<String> {
        None
    }

    /// [`Tool::find_task`].
    fn find_task<'a>(
        &'a self,
        _task: EarlierTask<'a>,
        _call: &'a Call,
    ) -> BoxFuture<'a, Result<FoundCall, ToolError>> {
        let none = ToolError::not_found("The task has ended.");
        Box::pin(std::future::ready(Err(none)))
    }
}

impl<S: Send + Sync + 'static> Toolset<S> {
    /// Adds a tool.
    ///
    /// # Panics
    /// If the name is taken or the declaration is incomplete; the first test finds both.
    #[must_use]
    pub fn with<T: Tool<Service = S>>(self) -> Self {
        self.add(ToolDefinition::from_tool::<T>(), |service| {
            Arc::new(Bound::<ToolDefinition, T, S>::new(service))
        })
    }

    /// Adds tools that have no service, or have one already.
    ///
    /// # Panics
    /// If a name is taken; the first test finds that.
    #[must_use]
    pub fn with_bound(self, tools: BoundItems<ToolDefinition>) -> Self {
        tools.into_iter().fold(self, |all, (definition, tool)| {
            all.add(definition, move |_| Arc::clone(&tool))
        })
    }

    /// Adds the tools of `set` as the toolset `name`, which is served only if it is chosen.
    ///
    /// # Panics
    /// If a name is taken; the first test finds that.
    #[must_use]
    pub fn group(self, name: &'static str, set: Self) -> Self {
        let is_free = name != ALL_TOOLSETS && !self.groups().contains(&name);
        assert!(is_free, "toolset {name} is declared twice");
        let in_group = |item| Item {
            group: name,
            ..item
        };
        let items = set.items.into_iter().map(in_group);
        items.fold(self, Registry::push)
    }

    /// The names of the toolsets, in order.
    pub fn groups(&self) -> Vec<&'static str> {
        let mut groups = Vec::new();
        for tool in self.items.iter() {
            if !groups.contains(&tool.group) {
                groups.push(tool.group);
            }
        }
        groups
    }

    /// The toolset of the tool `name`.
    pub fn group_of(&self, name: &str) -> Option<&'static str> {
        let mut tools = self.items.iter();
        let tool = tools.find(|tool| tool.definition.name == name)?;
        Some(tool.group)
    }

    /// Keeps the tools of the toolsets that are `chosen`: some of [`Toolset::groups`], or [`ALL_TOOLSETS`].
    ///
    /// # Errors
    /// The first unknown name.
    pub fn choose(self, chosen: &[String]) -> Result<Self, String> {
        let groups = self.groups();
        let is_known = |name: &&String| *name == ALL_TOOLSETS || groups.contains(&name.as_str());
        match chosen.iter().find(|name| !is_known(name)) {
            Some(unknown) => Err(unknown.clone()),
            None if chosen.iter().any(|name| name == ALL_TOOLSETS) => Ok(self),
            None => Ok(self.keep(|tool| chosen.iter().any(|name| name == tool.group))),
        }
    }

    /// Keeps the tools whose definition `is_kept`.
    #[must_use]
    pub fn retain(self, is_kept: impl Fn(&ToolDefinition) -> bool) -> Self {
        self.keep(|tool| is_kept(&tool.definition))
    }

    /// Keeps only the tools that change nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.retain(|tool| tool.effect == Effect::ReadOnly)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.items.iter().map(|tool| &tool.definition.name)
    }

    /// The definitions, in order.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let definitions = self.items.iter().map(|tool| tool.definition.clone());
        definitions.collect()
    }
}

async fn run<T: Tool>(tool: T, service: &T::Service, call: &Call) -> Result<ToolResult, ToolError> {
    let output = tool.call(service, call).await?;
    output.into_result().map_err(ToolError::unwritable)
}

impl<T: Tool> BoundTool for Bound<ToolDefinition, T, T::Service> {
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<ToolFuture<'a>, ArgumentError> {
        let tool = parse_arguments::<T>(arguments)?;
        Ok(Box::pin(run(tool, &self.service, call)))
    }

    fn task_reference(&self, arguments: &RawValue, call: &Call) -> Option<String> {
        let tool = parse_arguments::<T>(arguments).ok()?;
        tool.task_reference(&self.service, call)
    }

    fn find_task<'a>(
        &'a self,
        task: EarlierTask<'a>,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<FoundCall, ToolError>> {
        Box::pin(async move {
            let tool = T::find_task(&self.service, task, call).await?;
            let service = Arc::clone(&self.service);
            let found: FoundCall =
                Box::new(|call| Box::pin(async move { run(tool, &service, &call).await }));
            Ok(found)
        })
    }
}

/// A tool that is a function of its arguments.
struct Function<A, F> {
    function: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, R, T> BoundTool for Function<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> R + Send + Sync,
    R: Future<Output = Result<T, ToolError>> + Send,
    T: Output,
{
    fn start<'a>(
        &'a self,
        arguments: &RawValue,
        _: &'a Call,
    ) -> Result<ToolFuture<'a>, ArgumentError> {
        let arguments = parse_arguments::<A>(arguments)?;
        Ok(Box::pin(async move {
            let output = (self.function)(arguments).await?;
            output.into_result().map_err(ToolError::unwritable)
        }))
    }
}

/// Returns `function` as a tool: its description is the doc comment of `A`.
///
/// # Panics
/// If the name is invalid, or `A` has no doc comment.
pub fn function<A, R, T>(
    name: &str,
    effect: Effect,
    function: impl Fn(A) -> R + Send + Sync + 'static,
) -> (ToolDefinition, Arc<dyn BoundTool>)
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: Output + 'static,
{
    let arguments = PhantomData;
    let tool = Function {
        function,
        arguments,
    };
    let definition = ToolDefinition::of_arguments::<A, T>(name, effect);
    (definition, Arc::new(tool))
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
    fn toolsets_are_chosen_by_name() {
        let tools = || {
            let add = |name: &str, set: Toolset<()>| {
                let mut definition = ToolDefinition::from_tool::<Count>();
                definition.name = name.to_owned();
                set.add(definition, |service| {
                    Arc::new(Bound::<ToolDefinition, Count, ()>::new(service))
                })
            };
            add("count", Toolset::new()).group("more", add("recount", Toolset::new()))
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
        assert!(tools().read_only().definitions().is_empty());
    }
}
