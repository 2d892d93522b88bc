//! Parses the inputs of a trigger: the fields of a form, the inputs of a sub-workflow.

use serde_json::{Map, Value};

use super::Trigger;

/// From this version on the fields of a form have names besides their labels.
const FORM_WITH_NAMES: f64 = 2.4;

/// Types of JSON Schema that n8n has, too.
const TYPES: [&str; 4] = ["number", "boolean", "array", "object"];

/// A field of a form that can be filled in.
#[derive(Debug, PartialEq)]
pub(crate) struct FormField {
    /// The name in the run's data.
    pub(crate) name: String,
    /// The index among all of n8n's fields, some of which cannot be filled in.
    pub(crate) index: usize,
    pub(crate) required: bool,
    pub(crate) kind: FormFieldKind,
}

/// The kind of value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FormFieldKind {
    Text,
    Number,
    /// `2026-12-31`
    Date,
    Email,
    /// One of these.
    Choice(Vec<String>),
    /// The same, sent as a list.
    Radio(Vec<String>),
    /// Several of these.
    Choices(Vec<String>),
    File {
        several: bool,
    },
}

impl FormFieldKind {
    /// True if n8n requires a list, even of one element.
    pub(crate) fn is_sent_as_list(&self) -> bool {
        matches!(self, Self::Radio(_) | Self::Choices(_))
    }
}

impl Trigger<'_> {
    /// The fields of a form.
    pub(crate) fn fields(&self) -> Vec<FormField> {
        let all = self.node.parameters.get("formFields");
        let all = all.and_then(|fields| fields.get("values")?.as_array());
        let fields = all.into_iter().flatten().enumerate();
        let fields = fields.filter_map(|(index, field)| self.field(index, field.as_object()?));
        fields.collect()
    }

    fn field(&self, index: usize, field: &Map<String, Value>) -> Option<FormField> {
        let text = |key: &str| field.get(key).and_then(Value::as_str);
        let yes = |key: &str| field.get(key) == Some(&Value::Bool(true));
        let label = text("fieldLabel");
        let own = text("fieldName").filter(|name| !name.is_empty());
        let prefers_own = self.node.type_version >= FORM_WITH_NAMES;
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

    /// Names and JSON Schema types of the inputs of a sub-workflow; empty if it takes anything.
    pub(crate) fn inputs(&self) -> Vec<(String, &'static str)> {
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
                let rows = self.node.parameters.get("workflowInputs");
                let rows = rows.and_then(|inputs| inputs.get("values")?.as_array());
                let rows = rows.into_iter().flatten();
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

fn options(field: &Map<String, Value>) -> Vec<String> {
    let all = field.get("fieldOptions");
    let all = all.and_then(|options| options.get("values")?.as_array());
    let texts = all.into_iter().flatten();
    let texts = texts.filter_map(|option| option.get("option")?.as_str().map(str::to_owned));
    texts.collect()
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
