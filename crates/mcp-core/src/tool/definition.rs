//! The published definition of a tool.

use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Output, TaskSupport, Tool, schema};
use crate::http_headers::{HeaderParam, header_params};
use crate::jsonrpc::{Members, members, quoted, string};

/// A tool's published definition; the lists of every era are rendered from it.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// Unique within a server.
    pub name: String,
    /// The tool's purpose, in a sentence or two.
    pub description: String,
    /// The effect of a call on the service.
    pub effect: Effect,
    /// Whether a call may continue as a task.
    pub task: TaskSupport,
    /// JSON Schema of the arguments: an object with `properties`.
    pub input_schema: Arc<Value>,
    /// JSON Schema of `structuredContent`, if the tool returns any.
    pub output_schema: Option<Arc<Value>>,
    /// Other names under which it can be called. The first one of a relayed tool is its name in the list of seed 001.
    pub aliases: Vec<String>,
    /// False for a tool that can be called but is not listed.
    pub is_listed: bool,
    /// The most bytes of its result, if it has a bound.
    pub max_bytes: Option<usize>,
    /// The arguments that clients repeat in headers.
    header_params: Arc<[HeaderParam]>,
    /// The original definition, if the tool is relayed from another server.
    relayed: Option<Arc<Members>>,
    /// The name and the effect without the view that shows others.
    original: Option<(String, Effect)>,
}

impl ToolDefinition {
    /// The definition of `T`.
    ///
    /// # Panics
    /// If `T` has no doc comment, an invalid name or an invalid header; the first test finds that.
    pub fn from_tool<T: Tool>() -> Self {
        Self {
            task: T::TASK,
            max_bytes: T::BOUNDS_ITS_RESULT.then_some(usize::MAX),
            ..Self::of_arguments::<T, T::Output>(T::NAME, T::EFFECT)
        }
    }

    /// The definition of a tool with the arguments `A` and the result `T`.
    pub(super) fn of_arguments<A: JsonSchema, T: Output>(name: &str, effect: Effect) -> Self {
        let (description, input_schema) = schema::documented::<A>("tool", name);
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_valid = (1..=64).contains(&name.len()) && name.chars().all(valid);
        assert!(is_valid, "invalid tool name {name:?}");
        let headers = header_params(&input_schema);
        assert!(headers.is_ok(), "tool {name}: {headers:?}");
        Self {
            name: name.to_owned(),
            description,
            effect,
            task: TaskSupport::Never,
            input_schema: input_schema.into(),
            output_schema: T::schema().map(Arc::new),
            aliases: Vec::new(),
            is_listed: true,
            max_bytes: None,
            header_params: headers.unwrap_or_default().into(),
            relayed: None,
            original: None,
        }
    }

    /// The definition `item` of another server, published as `name`, and as `seed_001_name` in the
    /// list of seed 001. Both names call it.
    ///
    /// # Errors
    /// The fault of the definition, which must be an object with an object as `inputSchema`.
    pub fn from_backend(
        name: String,
        seed_001_name: String,
        item: &RawValue,
    ) -> Result<Self, String> {
        let members = Members::read(item.get()).ok_or("is not an object")?;
        let parsed =
            |name: &str| -> Option<Value> { serde_json::from_str(members.get(name)?).ok() };
        let input_schema = parsed("inputSchema")
            .filter(Value::is_object)
            .ok_or("has no inputSchema that is an object")?;
        let description = members.get("description").and_then(string);
        let description = description.unwrap_or_default().into_owned();
        let annotations = parsed("annotations").unwrap_or_default();
        let execution = parsed("execution").unwrap_or_default();
        let task = match execution["taskSupport"].as_str() {
            Some("required") => TaskSupport::Required,
            Some("optional") => TaskSupport::Optional,
            _ => TaskSupport::Never,
        };
        Ok(Self {
            description,
            effect: Effect::from_annotations(&annotations),
            task,
            max_bytes: None,
            // It may declare invalid headers: then it has none.
            header_params: header_params(&input_schema).unwrap_or_default().into(),
            input_schema: input_schema.into(),
            output_schema: parsed("outputSchema").map(Arc::new),
            aliases: vec![seed_001_name],
            is_listed: true,
            relayed: Some(Arc::new(members)),
            original: None,
            name,
        })
    }

    /// The definition of a relayed tool that a view shows as `name`. Access to it stays that of the original.
    ///
    /// # Errors
    /// The tool is not relayed.
    pub fn renamed(&self, name: &str) -> Result<Self, String> {
        if self.relayed.is_none() {
            return Err("is not relayed".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            original: Some((self.original_name().to_owned(), self.original_effect())),
            // The original names are unknown in the view.
            aliases: Vec::new(),
            ..self.clone()
        })
    }

    /// The arguments that clients repeat in headers.
    pub(crate) fn header_params(&self) -> &[HeaderParam] {
        &self.header_params
    }

    /// Its name without a view.
    pub fn original_name(&self) -> &str {
        self.original.as_ref().map_or(&self.name, |(name, _)| name)
    }

    /// Its effect without a view, by which access to it is decided.
    pub fn original_effect(&self) -> Effect {
        self.original
            .as_ref()
            .map_or(self.effect, |(_, effect)| *effect)
    }

    /// Lets calls of it become tasks when they ask for that ([`TaskSupport::Late`]), and says so in the lists: clients of
    /// 2025-11-25 start no task otherwise.
    pub fn continue_as_tasks(&mut self) {
        self.task = TaskSupport::Late;
        if let Some(relayed) = &mut self.relayed {
            let support = self.task.as_str();
            let execution = format!(r#"{{"taskSupport":"{support}"}}"#);
            Arc::make_mut(relayed).set("execution", &execution);
        }
    }

    /// The name for people: `list_workflows` is "List workflows".
    pub fn title(&self) -> String {
        let mut words = self.name.replace(['_', '-'], " ");
        if let Some(first) = words.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        words
    }

    /// The definition as JSON, with the fields of `detail`.
    pub fn encode(&self, detail: Detail) -> String {
        match &self.relayed {
            Some(relayed) => self.select(relayed, detail),
            None => self.render(detail).to_string(),
        }
    }

    /// The [`tokens`] of this tool.
    pub fn tokens(&self) -> usize {
        tokens(&self.encode(Detail::Basic))
    }

    /// The original definition with the members of `detail`. Known ones are selected from it and keep their bytes, so that
    /// numbers keep their digits.
    fn select(&self, original: &Members, detail: Detail) -> String {
        let is_seed_001 = detail == Detail::Seed001;
        let alias = self.aliases.first().filter(|_| is_seed_001);
        let mut text = format!(r#"{{"name":{}"#, quoted(alias.unwrap_or(&self.name)));
        let shown = MEMBERS.iter().filter(|name| detail.shows(name));
        let renamed = is_seed_001.then_some(("parameter_schema", "inputSchema"));
        for (name, member) in shown.map(|name| (*name, *name)).chain(renamed) {
            if let Some(json) = original.get(member) {
                text.push_str(&format!(r#","{name}":{json}"#));
            }
        }
        text.push('}');
        text
    }

    /// The definition with the fields of `detail`.
    pub fn render(&self, detail: Detail) -> Value {
        let mut tool = json!({"name": self.name});
        if detail.shows("title") {
            tool["title"] = json!(self.title());
        }
        tool["description"] = json!(self.description);
        let schema = match detail {
            Detail::Seed001 => "parameter_schema",
            _ => "inputSchema",
        };
        tool[schema] = Value::clone(&self.input_schema);
        if let (true, Some(output)) = (detail.shows("outputSchema"), &self.output_schema) {
            tool["outputSchema"] = Value::clone(output);
        }
        if detail.shows("annotations") {
            tool["annotations"] = self.effect.annotations();
        }
        if detail.shows("execution") && self.task != TaskSupport::Never {
            tool["execution"] = json!({"taskSupport": self.task.as_str()});
        }
        tool
    }
}

/// The fields of a definition that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// `name`, `description`, `parameter_schema` (seed 001).
    Seed001,
    /// `name`, `description`, `inputSchema` (2024-11-05).
    Basic,
    /// Adds `annotations` (2025-03-26).
    Annotated,
    /// Adds `title` and `outputSchema` (2025-06-18 and later).
    Full,
    /// Adds `execution`, if a tool may run as a task (2025-11-25 only).
    Tasks,
}

impl Detail {
    /// True if a list of this detail shows the field.
    pub(super) fn shows(self, field: &str) -> bool {
        match field {
            "description" => true,
            "inputSchema" => self != Self::Seed001,
            "annotations" => !matches!(self, Self::Seed001 | Self::Basic),
            "execution" => self == Self::Tasks,
            _ => matches!(self, Self::Full | Self::Tasks),
        }
    }
}

/// The tokens that a tool costs a model in each conversation, about: four bytes of its name, its description and its input
/// schema are one, since hosts pass no other member on.
pub fn tokens(definition: &str) -> usize {
    let is_paid = |name: &str| ["name", "description", "inputSchema"].contains(&name);
    let paid = members(definition).into_iter().flatten();
    let paid = paid.filter(|(name, _)| is_paid(name));
    // With the quotes, the colon, and the comma or the bracket of each, and the first bracket.
    let bytes: usize = paid.map(|(name, json)| name.len() + json.len() + 4).sum();
    (bytes + 1).div_ceil(4)
}

/// The effect of a call on the service; every tool must declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Only adds: a new run, a new container. Repeating it adds again.
    Additive,
    /// Changes something; repeating it changes nothing more.
    Idempotent,
    /// May lose data.
    Destructive,
    /// Some calls may lose data, others lose nothing: a preview, a new file.
    PartlyDestructive,
}

impl Effect {
    /// Reads the annotations of another server's tool; absent ones have the defaults of the
    /// specification, which assume the worst (`ToolAnnotations`).
    pub(super) fn from_annotations(annotations: &Value) -> Self {
        let is = |name: &str, default: bool| annotations[name].as_bool().unwrap_or(default);
        if is("readOnlyHint", false) {
            Self::ReadOnly
        } else if is("destructiveHint", true) {
            Self::Destructive
        } else if is("idempotentHint", false) {
            Self::Idempotent
        } else {
            Self::Additive
        }
    }

    /// The tool annotations of the specification (2025-03-26, `ToolAnnotations`).
    pub fn annotations(self) -> Value {
        match self {
            Self::ReadOnly => json!({"readOnlyHint": true}),
            Self::Additive => json!({"readOnlyHint": false, "destructiveHint": false}),
            Self::Idempotent => {
                json!({"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true})
            }
            Self::Destructive | Self::PartlyDestructive => {
                json!({"readOnlyHint": false, "destructiveHint": true})
            }
        }
    }
}

/// The members that are passed on, in the order of the lists.
const MEMBERS: [&str; 8] = [
    "title",
    "icons",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "execution",
    "_meta",
];
