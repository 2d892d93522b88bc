//! The input of a trigger: the fields of a form, the inputs of a sub-workflow.

use serde_json::{Map, Value};

use super::Trigger;

/// From this version on the fields of a form have names of their own.
const FORM_WITH_NAMES: f64 = 2.4;

/// A field of a form that can be filled in.
#[derive(Debug, PartialEq)]
pub(crate) struct Field {
    /// As the run sees it.
    pub(crate) name: String,
    /// As n8n counts it: not every field can be filled in.
    pub(crate) index: usize,
    pub(crate) required: bool,
    pub(crate) kind: FieldKind,
}

/// The kind of value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldKind {
    Text,
    Number,
    /// `2026-12-31`
    Date,
    Email,
    /// One of these.
    Choice(Vec<String>),
    /// The same; n8n wants a list all the same.
    Radio(Vec<String>),
    /// Several of these.
    Choices(Vec<String>),
    File {
        several: bool,
    },
}

impl FieldKind {
    /// n8n wants a list, even of one.
    pub(crate) fn is_sent_as_list(&self) -> bool {
        matches!(self, Self::Radio(_) | Self::Choices(_))
    }
}

impl Trigger<'_> {
    /// The fields of the form that it is.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let all = self.node.parameters.get("formFields");
        let all = all.and_then(|fields| fields.get("values")?.as_array());
        let fields = all.into_iter().flatten().enumerate();
        let fields = fields.filter_map(|(index, field)| self.field(index, field.as_object()?));
        fields.collect()
    }

    fn field(&self, index: usize, field: &Map<String, Value>) -> Option<Field> {
        let text = |key: &str| field.get(key).and_then(Value::as_str);
        let yes = |key: &str| field.get(key) == Some(&Value::Bool(true));
        let label = text("fieldLabel");
        let own = text("fieldName").filter(|name| !name.is_empty());
        let name = if self.node.type_version >= FORM_WITH_NAMES || label.is_none() {
            own.or(label)
        } else {
            label
        };
        let kind = match text("fieldType").unwrap_or("text") {
            "html" => return None,
            "number" => FieldKind::Number,
            "date" => FieldKind::Date,
            "email" => FieldKind::Email,
            "checkbox" => FieldKind::Choices(options(field)),
            "dropdown" if yes("multiselect") => FieldKind::Choices(options(field)),
            "dropdown" => FieldKind::Choice(options(field)),
            "radio" => FieldKind::Radio(options(field)),
            "file" => FieldKind::File {
                // Several unless the form says otherwise.
                several: field.get("multipleFiles") != Some(&Value::Bool(false)),
            },
            _ => FieldKind::Text,
        };
        Some(Field {
            name: name?.to_owned(),
            index,
            required: yes("requiredField"),
            kind,
        })
    }

    /// Names of what a sub-workflow takes, and its types in the words of JSON Schema; none for one
    /// that takes anything.
    pub(crate) fn inputs(&self) -> Vec<(String, &'static str)> {
        match self.text("inputSource") {
            Some("passthrough") => Vec::new(),
            Some("jsonExample") => {
                let example = self.text("jsonExample").unwrap_or_default();
                let example: Map<_, _> = serde_json::from_str(example).unwrap_or_default();
                let inputs = example.into_iter();
                inputs
                    .map(|(name, value)| (name, type_of(&value)))
                    .collect()
            }
            _ => {
                let rows = self.node.parameters.get("workflowInputs");
                let rows = rows.and_then(|inputs| inputs.get("values")?.as_array());
                let rows = rows.into_iter().flatten();
                let input = |row: &Value| {
                    let kind = match row.get("type").and_then(Value::as_str) {
                        Some("number") => "number",
                        Some("boolean") => "boolean",
                        Some("array") => "array",
                        Some("object") => "object",
                        Some("any") => "",
                        _ => "string",
                    };
                    Some((row.get("name")?.as_str()?.to_owned(), kind))
                };
                rows.filter_map(input).collect()
            }
        }
    }
}

fn options(field: &Map<String, Value>) -> Vec<String> {
    let all = field.get("fieldOptions");
    let all = all.and_then(|options| options.get("values")?.as_array());
    let texts = all.into_iter().flatten();
    let texts = texts.filter_map(|option| option.get("option")?.as_str().map(str::to_owned));
    texts.collect()
}

/// In the words of JSON Schema; nothing for what tells nothing.
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
