//! Parses the inputs of a trigger: the fields of a form, the inputs of a sub-workflow.

use serde_json::{Map, Value};

use super::Trigger;
use crate::node_type::last_part;
use crate::workflow::Node;

/// From this version on the fields of a form have names besides their labels.
const FORM_WITH_NAMES: f64 = 2.4;

/// Types of JSON Schema that n8n has, too.
const TYPES: [&str; 4] = ["number", "boolean", "array", "object"];

/// A field of a form that can be filled in.
#[derive(Debug, PartialEq)]
pub struct FormField {
    /// The name in the run's data.
    pub name: String,
    /// The index among all of n8n's fields, some of which cannot be filled in.
    pub index: usize,
    /// The form is not accepted without it.
    pub required: bool,
    /// The values that it takes.
    pub kind: FormFieldKind,
}

/// The kind of a field of a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormFieldKind {
    /// Any text.
    Text,
    /// A number.
    Number,
    /// `2026-12-31`
    Date,
    /// An address.
    Email,
    /// One of these.
    Choice(Vec<String>),
    /// The same, sent as a list.
    Radio(Vec<String>),
    /// Several of these.
    Choices(Vec<String>),
    /// A file.
    File {
        /// Several are accepted.
        several: bool,
    },
}

impl Trigger<'_> {
    /// The fields of its form; `None` if an expression computes them at the run.
    pub fn fields(&self) -> Option<Vec<FormField>> {
        fields_of(self.node)
    }

    /// Names and JSON Schema types of the inputs of a sub-workflow; empty if it takes anything.
    pub fn inputs(&self) -> Vec<(String, &'static str)> {
        match self.text("inputSource") {
            Some("passthrough") => Vec::new(),
            Some("jsonExample") => {
                let example = self.text("jsonExample").unwrap_or_default();
                let example: Map<_, _> = serde_json::from_str(example).unwrap_or_default();
                let inputs = example
                    .into_iter()
                    .map(|(name, value)| (name, type_of(&value)));
                inputs.collect()
            }
            _ => {
                let rows = values(&self.node.parameters, "workflowInputs");
                let input = |row: &Value| {
                    let kind = match row.get("type").and_then(Value::as_str) {
                        Some("any") => "",
                        Some(kind) => TYPES
                            .into_iter()
                            .find(|one| *one == kind)
                            .unwrap_or("string"),
                        None => "string",
                    };
                    Some((row.get("name")?.as_str()?.to_owned(), kind))
                };
                rows.filter_map(input).collect()
            }
        }
    }
}

/// What a node that waits is continued by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The next page of a form.
    Form,
    /// A request to its URL.
    Request,
    /// A moment.
    Time,
    /// The answer of a person, by a link that n8n has signed.
    Person,
}

/// What `node`, which waits, is continued by.
pub fn waits_for(node: &Node) -> WaitsFor {
    let resume = node.parameters.get("resume").and_then(Value::as_str);
    match (last_part(&node.kind), resume) {
        ("form", _) | ("wait", Some("form")) => WaitsFor::Form,
        ("wait", Some("webhook")) => WaitsFor::Request,
        ("wait", _) => WaitsFor::Time,
        _ => WaitsFor::Person,
    }
}

/// The fields of a node with a form; `None` if an expression computes them at the run.
pub fn fields_of(node: &Node) -> Option<Vec<FormField>> {
    let text = |key: &str| node.parameters.get(key).and_then(Value::as_str);
    let rows: Vec<Value> = match (text("operation"), text("defineForm")) {
        (Some("completion"), _) => Vec::new(),
        (_, Some("json")) => {
            let json = text("jsonOutput").unwrap_or_default();
            let rows = serde_json::from_str(json.trim_start_matches('='));
            match rows {
                Err(_) if json.starts_with('=') => return None,
                rows => rows.unwrap_or_default(),
            }
        }
        _ => values(&node.parameters, "formFields").cloned().collect(),
    };
    let fields = rows.iter().enumerate();
    let fields = fields.filter_map(|(index, field)| form_field(node, index, field.as_object()?));
    Some(fields.collect())
}

fn form_field(node: &Node, index: usize, field: &Map<String, Value>) -> Option<FormField> {
    let text = |key: &str| field.get(key).and_then(Value::as_str);
    let yes = |key: &str| field.get(key) == Some(&Value::Bool(true));
    let label = text("fieldLabel");
    let own = text("fieldName").filter(|name| !name.is_empty());
    let prefers_own = node.type_version >= FORM_WITH_NAMES;
    let name = if prefers_own {
        own.or(label)
    } else {
        label.or(own)
    };
    let kind = match text("fieldType").unwrap_or("text") {
        "html" => return None,
        "number" => FormFieldKind::Number,
        "date" => FormFieldKind::Date,
        "email" => FormFieldKind::Email,
        "checkbox" => FormFieldKind::Choices(options(field)),
        "dropdown" if yes("multiselect") => FormFieldKind::Choices(options(field)),
        "dropdown" => FormFieldKind::Choice(options(field)),
        "radio" => FormFieldKind::Radio(options(field)),
        "file" => FormFieldKind::File {
            // Several by default.
            several: field.get("multipleFiles") != Some(&Value::Bool(false)),
        },
        _ => FormFieldKind::Text,
    };
    Some(FormField {
        name: name?.to_owned(),
        index,
        required: yes("requiredField"),
        kind,
    })
}

fn options(field: &Map<String, Value>) -> Vec<String> {
    let options = values(field, "fieldOptions");
    let texts = options.filter_map(|option| option.get("option")?.as_str().map(str::to_owned));
    texts.collect()
}

/// The rows of a list parameter, which n8n writes as `{"values": […]}`.
fn values<'a>(parameters: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = parameters.get(key);
    let rows = list.and_then(|list| list.get("values")?.as_array());
    rows.into_iter().flatten()
}

/// The JSON Schema type of a value; empty for null.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
