//! What a tool is to those who list it.

use serde_json::{Map, Value, json};

use super::imported::Imported;
use super::{Effect, Output, TaskSupport, Tool, mirrored, schema};

/// A tool's published definition; every list in every dialect is rendered from it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Unique within a server.
    pub name: String,
    /// What it does, in a sentence or two.
    pub description: String,
    /// What a call does to the service.
    pub effect: Effect,
    /// Whether a call may go on as a task.
    pub task: TaskSupport,
    /// JSON Schema of the arguments: an object with `properties`.
    pub input_schema: Value,
    /// JSON Schema of `structuredContent`, where the tool returns any.
    pub output_schema: Option<Value>,
    /// Other names that call it.
    pub aliases: Vec<String>,
    /// False for a tool that can be called, but is in no list.
    pub is_listed: bool,
    /// What its own server wrote, where it has another.
    pub(super) imported: Option<Imported>,
}

/// Which fields of a definition a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// `name`, `description`, `parameter_schema` (seed 001).
    Legacy,
    /// `name`, `description`, `inputSchema` (2024-11-05).
    Basic,
    /// Adds `annotations` (2025-03-26).
    Annotated,
    /// Adds `title` and `outputSchema` (2025-06-18 and later).
    Full,
    /// Adds `execution`, where a tool may run as a task (2025-11-25 alone).
    Tasks,
}

impl Definition {
    /// The definition of `T`.
    ///
    /// # Panics
    /// When `T` has no doc comment, an illegal name or an illegal header: found by the first test.
    pub fn of<T: Tool>() -> Self {
        let (description, input_schema) = schema::input::<T>();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = T::NAME;
        assert!(
            (1..=64).contains(&name.len()) && name.chars().all(legal),
            "illegal tool name {name:?}"
        );
        assert!(!description.is_empty(), "tool {name} has no doc comment");
        let headers = mirrored(&input_schema);
        assert!(headers.is_ok(), "tool {name}: {headers:?}");
        Self {
            name: name.to_owned(),
            description,
            effect: T::EFFECT,
            task: T::TASK,
            input_schema,
            output_schema: T::Output::schema(),
            aliases: Vec::new(),
            is_listed: true,
            imported: None,
        }
    }

    /// The name as people read it: `list_workflows` is "List workflows".
    pub fn title(&self) -> String {
        let mut words = self.name.replace(['_', '-'], " ");
        if let Some(first) = words.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        words
    }

    /// The definition as JSON, with the fields that `detail` shows.
    pub fn encode(&self, detail: Detail) -> String {
        match &self.imported {
            Some(imported) => imported.encode(&self.name, detail),
            None => self.render(detail).to_string(),
        }
    }

    /// The definition with the fields that `detail` shows.
    pub fn render(&self, detail: Detail) -> Value {
        let mut tool = Map::new();
        tool.insert("name".into(), json!(self.name));
        let is_full = matches!(detail, Detail::Full | Detail::Tasks);
        if is_full {
            tool.insert("title".into(), json!(self.title()));
        }
        tool.insert("description".into(), json!(self.description));
        let schema = if detail == Detail::Legacy {
            "parameter_schema"
        } else {
            "inputSchema"
        };
        tool.insert(schema.into(), self.input_schema.clone());
        if let (true, Some(output)) = (is_full, &self.output_schema) {
            tool.insert("outputSchema".into(), output.clone());
        }
        if is_full || detail == Detail::Annotated {
            tool.insert("annotations".into(), self.effect.annotations());
        }
        if detail == Detail::Tasks && self.task != TaskSupport::Never {
            let execution = json!({"taskSupport": self.task.as_str()});
            tool.insert("execution".into(), execution);
        }
        Value::Object(tool)
    }
}
