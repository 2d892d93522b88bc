//! What a tool is to those who list it.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::relayed::RelayedDefinition;
use super::{Detail, Effect, Output, TaskSupport, Tool, schema};
use crate::http_headers::header_params;
use crate::jsonrpc::{Members, string};

/// A tool's published definition; every list in every dialect is rendered from it.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
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
    pub(super) relayed: Option<RelayedDefinition>,
}

impl ToolDefinition {
    /// The definition of `T`.
    ///
    /// # Panics
    /// When `T` has no doc comment, an illegal name or an illegal header: found by the first test.
    pub fn from_tool<T: Tool>() -> Self {
        let (description, input_schema) = schema::documented::<T>("tool", T::NAME);
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = T::NAME;
        assert!(
            (1..=64).contains(&name.len()) && name.chars().all(legal),
            "illegal tool name {name:?}"
        );
        let headers = header_params(&input_schema);
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
            relayed: None,
        }
    }

    /// The definition `item` of another server, published as `name`, and as `seed_001_name` where
    /// seed 001 lists it; both names call it.
    ///
    /// # Errors
    /// The fault of the definition: it must be an object with an object as `inputSchema`.
    pub fn from_backend(
        name: String,
        seed_001_name: String,
        item: &RawValue,
    ) -> Result<Self, String> {
        let members = Members::read(item.get()).ok_or("is not an object")?;
        let parsed = |name: &str| -> Option<Value> {
            members
                .get(name)
                .and_then(|json| serde_json::from_str(json).ok())
        };
        let input_schema = parsed("inputSchema")
            .filter(Value::is_object)
            .ok_or("has no inputSchema that is an object")?;
        let description = members
            .get("description")
            .and_then(string)
            .map(|text| text.into_owned())
            .unwrap_or_default();
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
            input_schema,
            output_schema: parsed("outputSchema"),
            aliases: vec![seed_001_name.clone()],
            is_listed: true,
            relayed: Some(RelayedDefinition {
                members,
                seed_001_name,
            }),
            name,
        })
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
        match &self.relayed {
            Some(relayed) => relayed.encode(&self.name, detail),
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
        let schema = if detail == Detail::Seed001 {
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
