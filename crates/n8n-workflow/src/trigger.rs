//! The triggers of a workflow: their kinds and URLs, the inputs that they take, and the JSON Schema of these.

use std::fmt;
use std::sync::LazyLock;

use http::Method;
use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::expressions::visit_texts;
use crate::node::Node;
use crate::node_type::last_part;
use crate::workflow::Workflow;

/// It is the kind of the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "it would become a part of a tool's schema")]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    Webhook,
    Chat,
    Form,
    Schedule,
    Manual,
    SubWorkflow,
    // An event of another service.
    Event,
}

/// Writes the name that tools show.
impl fmt::Display for TriggerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A trigger node that is not disabled.
pub struct Trigger<'a> {
    /// One of the nodes in production.
    pub node: &'a Node,
    /// By the type of the node.
    pub kind: TriggerKind,
    /// The workflow that it starts.
    pub workflow: &'a Workflow,
}

impl TriggerKind {
    /// The kind of nodes of this type; `None` if they are no triggers.
    pub fn from_type(kind: &str) -> Option<Self> {
        let name = last_part(kind);
        Some(match name {
            "webhook" => Self::Webhook,
            "chatTrigger" => Self::Chat,
            "formTrigger" => Self::Form,
            "scheduleTrigger" | "cron" | "interval" => Self::Schedule,
            "manualTrigger" | "start" => Self::Manual,
            "executeWorkflowTrigger" => Self::SubWorkflow,
            "emailReadImap" => Self::Event,
            _ if name.ends_with("Trigger") => Self::Event,
            _ => return None,
        })
    }
}

/// The triggers of a workflow, in the order of its nodes.
pub fn triggers(workflow: &Workflow) -> Vec<Trigger<'_>> {
    let live = workflow
        .live_nodes()
        .iter()
        .filter(|node| !node.is_disabled());
    live.filter_map(|node| {
        Some(Trigger {
            node,
            kind: TriggerKind::from_type(node.kind())?,
            workflow,
        })
    })
    .collect()
}

impl Trigger<'_> {
    /// The scheme of the authentication that its URL requires.
    pub fn authentication(&self) -> Option<&str> {
        self.text("authentication")
            .filter(|scheme| *scheme != "none")
    }

    fn text(&self, parameter: &str) -> Option<&str> {
        self.node.text(parameter)
    }
}

/// Versions of the Form Trigger before this one have another URL.
const FORM_WITH_PATH: f64 = 2.0;
const METHODS: [Method; 6] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
];

/// The methods and the path of a webhook.
#[derive(Debug, PartialEq)]
pub struct Webhook {
    /// All that it takes, at least one. The first is used if the caller names none: POST if it is one of several.
    pub methods: Vec<Method>,
    /// Below `/webhook`; segments like `:id` are parameters.
    pub path: Vec<String>,
}

impl Webhook {
    /// The methods and the path of a node.
    ///
    /// # Errors
    /// A reason and what would help: the parameters do not determine them.
    pub fn of(node: &Node) -> Result<Self, String> {
        let path = fixed(node.text("path").unwrap_or_default())?;
        let known = |name: &str| METHODS.into_iter().find(|known| known.as_str() == name);
        let mut methods: Vec<_> = match node.parameters().get("httpMethod") {
            None => vec![Method::GET],
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(|name| known(name.as_str()?))
                .collect(),
            Some(name) => name.as_str().and_then(known).into_iter().collect(),
        };
        // POST has a body for the data.
        methods.sort_by_key(|method| *method != Method::POST);
        if methods.is_empty() {
            return Err("its HTTP method is not a fixed one: choose one".into());
        }
        Ok(Self { methods, path })
    }

    /// True if its path has parameters.
    pub fn has_parameters(&self) -> bool {
        self.path.iter().any(|segment| segment.starts_with(':'))
    }

    /// Each method with the path, in which all names of parameters are the same: n8n calls only one of two active
    /// workflows with the same.
    pub fn urls(self) -> impl Iterator<Item = String> {
        let segment = |one: &String| if one.starts_with(':') { ":" } else { one }.to_owned();
        let path: Vec<_> = self.path.iter().map(segment).collect();
        let path = path.join("/");
        self.methods
            .into_iter()
            .map(move |method| format!("{method} {path}"))
    }
}

impl Trigger<'_> {
    /// Methods and path of its URL.
    ///
    /// # Errors
    /// A reason and what would help: the parameters do not determine them.
    pub fn webhook(&self) -> Result<Webhook, String> {
        let mut webhook = Webhook::of(self.node)?;
        let id = self.node.webhook_id();
        if webhook.has_parameters() {
            let id = id.ok_or("its path has parameters but it has no webhook id: save it again")?;
            webhook.path.insert(0, id.to_owned());
        } else if webhook.path.iter().all(String::is_empty) {
            webhook.path = vec![id.ok_or("it has no path: set one")?.to_owned()];
        }
        Ok(webhook)
    }

    /// The id of a public chat, whose URL is `/webhook/<id>/chat`.
    pub fn chat_id(&self) -> Result<&str, String> {
        if self.node.parameters().get("public") != Some(&Value::Bool(true)) {
            return Err("its chat is not public: make it public".into());
        }
        let missing = || "it has no webhook id: save it again in n8n".to_owned();
        self.node.webhook_id().ok_or_else(missing)
    }

    /// The path of a form, below `/form`.
    pub fn form_path(&self) -> Result<Vec<String>, String> {
        if self.node.version() < FORM_WITH_PATH {
            return Err("its Form Trigger is of the first version: replace it by a new one".into());
        }
        let option = self.node.parameters().get("options");
        let option = option.and_then(|options| options.get("path")?.as_str());
        let given = self.text("path").or(option).filter(|path| !path.is_empty());
        fixed(
            given
                .or(self.node.webhook_id())
                .ok_or("it has no path: set one")?,
        )
    }

    /// True if its reply comes at the end of the run or from a node, and not at once.
    pub fn replies_at_end(&self) -> bool {
        !matches!(self.text("responseMode"), None | Some("onReceived"))
    }
}

/// The segments of a path; an error if it is an expression.
fn fixed(path: &str) -> Result<Vec<String>, String> {
    if path.starts_with('=') {
        return Err("its path is an expression: make it fixed".into());
    }
    let segments = path.trim_matches('/').split('/');
    Ok(segments.map(str::to_owned).collect())
}

/// From this version on the fields of a form have names besides their labels.
const FORM_WITH_NAMES: f64 = 2.4;

/// A field of a form that can be filled in.
#[derive(Debug, PartialEq)]
pub struct FormField {
    /// The name in the run's data.
    pub name: String,
    /// The index among all of n8n's fields, some of which cannot be filled in.
    pub index: usize,
    /// The form is not accepted without it.
    pub required: bool,
    /// The form in which n8n takes its value.
    pub input: FormInput,
    /// JSON Schema of the value.
    pub schema: Value,
    /// A browser sends this text if nobody fills the field in, since it is hidden.
    pub preset: Option<String>,
}

/// The form in which n8n takes the value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FormInput {
    /// A text.
    Text,
    /// A list, also of one value.
    List,
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

    /// The schemas of the inputs of a sub-workflow, by name; empty if it takes anything.
    fn inputs(&self) -> Map<String, Value> {
        match self.text("inputSource") {
            Some("passthrough") => Map::new(),
            Some("jsonExample") => {
                let example = self.text("jsonExample").unwrap_or_default();
                let example: Map<_, _> = serde_json::from_str(example).unwrap_or_default();
                let inputs = example.into_iter();
                inputs
                    .map(|(name, value)| (name, schema_of(type_of(&value))))
                    .collect()
            }
            _ => {
                let rows = values(self.node.parameters(), "workflowInputs");
                let input = |row: &Value| {
                    let kind = row.get("type").and_then(Value::as_str).unwrap_or_default();
                    Some((row.get("name")?.as_str()?.to_owned(), schema_of(kind)))
                };
                rows.filter_map(input).collect()
            }
        }
    }
}

/// The schema of values of a type of n8n.
fn schema_of(kind: &str) -> Value {
    match kind {
        "any" => json!({}),
        "array" => json!({"type": "array", "items": {}}),
        "number" | "boolean" | "object" => json!({ "type": kind }),
        _ => json!({"type": "string"}),
    }
}

/// The event that continues a node that waits.
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

/// The event that continues `node`, which waits.
pub fn waits_for(node: &Node) -> WaitsFor {
    match (node.short_kind(), node.text("resume")) {
        ("form", _) | ("wait", Some("form")) => WaitsFor::Form,
        ("wait", Some("webhook")) => WaitsFor::Request,
        ("wait", _) => WaitsFor::Time,
        _ => WaitsFor::Person,
    }
}

/// The fields of a node with a form; `None` if an expression computes them at the run.
pub fn fields_of(node: &Node) -> Option<Vec<FormField>> {
    let rows: Vec<Value> = match (node.text("operation"), node.text("defineForm")) {
        (Some("completion"), _) => Vec::new(),
        (_, Some("json")) => {
            let json = node.text("jsonOutput").unwrap_or_default();
            let rows = serde_json::from_str(json.trim_start_matches('='));
            match rows {
                Err(_) if json.starts_with('=') => return None,
                rows => rows.unwrap_or_default(),
            }
        }
        _ => values(node.parameters(), "formFields").cloned().collect(),
    };
    let fields = rows.iter().enumerate();
    let fields = fields.filter_map(|(index, field)| form_field(node, index, field));
    Some(fields.collect())
}

fn form_field(node: &Node, index: usize, field: &Value) -> Option<FormField> {
    let text = |key: &str| field.get(key).and_then(Value::as_str);
    let yes = |key: &str| field.get(key) == Some(&Value::Bool(true));
    let label = text("fieldLabel");
    let own = text("fieldName").filter(|name| !name.is_empty());
    let prefers_own = node.version() >= FORM_WITH_NAMES;
    let name = if prefers_own {
        own.or(label)
    } else {
        label.or(own)
    };
    let list = |items: Value| json!({"type": "array", "items": items});
    let (input, schema) = match text("fieldType").unwrap_or("text") {
        "html" => return None,
        "number" => (FormInput::Text, json!({"type": "number"})),
        kind @ ("date" | "email") => (FormInput::Text, json!({"type": "string", "format": kind})),
        "checkbox" => (FormInput::List, list(one_of(field))),
        "dropdown" if yes("multiselect") => (FormInput::List, list(one_of(field))),
        "dropdown" => (FormInput::Text, one_of(field)),
        "radio" => (FormInput::List, one_of(field)),
        "file" => {
            // Several by default.
            let several = field.get("multipleFiles") != Some(&Value::Bool(false));
            let schema = if several { list(file()) } else { file() };
            (FormInput::File { several }, schema)
        }
        _ => (FormInput::Text, json!({"type": "string"})),
    };
    Some(FormField {
        name: name?.to_owned(),
        index,
        required: yes("requiredField"),
        input,
        schema,
        preset: text("fieldValue")
            .filter(|preset| text("fieldType") == Some("hiddenField") && !preset.starts_with('='))
            .map(str::to_owned),
    })
}

/// A text that is one of the options of a field.
fn one_of(field: &Value) -> Value {
    let options = values(field, "fieldOptions");
    let options: Vec<_> = options
        .filter_map(|option| option.get("option")?.as_str())
        .collect();
    match options.len() {
        1..=MAX_OPTIONS => json!({"type": "string", "enum": options}),
        _ => json!({"type": "string"}),
    }
}

fn file() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object", "description": "A file: `text` or `base64`.",
        "properties": {"name": text, "type": text, "text": text, "base64": text},
    })
}

/// The rows of a list parameter, which n8n writes as `{"values": […]}`.
fn values<'a>(parameters: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = parameters.get(key);
    let rows = list.and_then(|list| list.get("values")?.as_array());
    rows.into_iter().flatten()
}

/// The type of a value.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "any",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Parameters that are taken from expressions.
const MAX_FOUND: usize = 30;

/// A field with more options is described without them.
const MAX_OPTIONS: usize = 50;

/// `body.x`, `query?.x`, `body["x"]`: an expression that reads a parameter of a webhook's request.
static READ_PARAMETER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern =
        r#"\b(?:body|query)\??(?:\.([A-Za-z_]\w*)|(?:\?\.)?\[\s*["']([^"']{1,64})["']\s*\])"#;
    Regex::new(pattern).ok()
});

/// Members of arrays and texts, which belong to the body itself and are no parameters.
const BUILTIN_MEMBERS: &str = "length map filter toString toJsonString isEmpty keys split";

/// The first block of code in a note, if it is a JSON Schema of an object.
pub fn parameters_in_note(note: &str) -> Option<Value> {
    let code = note.split("```").nth(1)?;
    let start = code.find('{')?;
    let schema: Value = serde_json::from_str(code[start..].trim()).ok()?;
    let is_object = schema["type"] == "object" && schema["properties"].is_object();
    is_object.then_some(schema)
}

/// A note without its code and the marks of its headings.
pub fn without_code(note: &str) -> String {
    let prose = note.split("```").step_by(2);
    let lines = prose.flat_map(str::lines);
    let lines = lines.map(|line| line.trim().trim_start_matches('#').trim());
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Description of the parameters of a form whose fields are not known before the run.
pub const COMPUTED_FIELDS: &str = "An expression computes the fields of this form: pass them as \
    `field-0`, `field-1` and so on, in their order.";

/// The schema of the values for the fields of a form.
pub fn schema_of_fields(fields: &[FormField]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        properties.insert(field.name.clone(), field.schema.clone());
        required.extend(field.required.then(|| field.name.clone()));
    }
    object_schema(properties, required)
}

fn object_schema(properties: Map<String, Value>, required: Vec<String>) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// The schema, from the trigger itself and from the expressions of the other nodes.
pub fn parameters_of(trigger: &Trigger<'_>) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<String> = Vec::new();
    match trigger.kind {
        TriggerKind::Form => match trigger.fields() {
            Some(fields) => return schema_of_fields(&fields),
            None => {
                return json!({"type": "object", "properties": {}, "description": COMPUTED_FIELDS});
            }
        },
        TriggerKind::Chat => {
            let property = json!({"type": "string", "description": "The message."});
            properties.insert("chatInput".into(), property);
            required.push("chatInput".into());
        }
        TriggerKind::Webhook => {
            let path = trigger.webhook().map(|webhook| webhook.path);
            for segment in path.iter().flatten() {
                if let Some(name) = segment.strip_prefix(':') {
                    let property = json!({"type": "string", "description": "Part of the path."});
                    properties.insert(name.to_owned(), property);
                    required.push(name.to_owned());
                }
            }
            for name in read_by(trigger.workflow.live_nodes()) {
                properties
                    .entry(name)
                    .or_insert_with(|| json!({"type": "string"}));
            }
        }
        TriggerKind::SubWorkflow => properties = trigger.inputs(),
        TriggerKind::Schedule | TriggerKind::Manual | TriggerKind::Event => {}
    }
    object_schema(properties, required)
}

/// The parameters that expressions and code of the nodes read, in order.
fn read_by(nodes: &[Node]) -> Vec<String> {
    let mut names = Vec::new();
    let Some(pattern) = READ_PARAMETER.as_ref() else {
        return names;
    };
    for node in nodes {
        visit_texts(node.parameters(), "", &mut |_, text| {
            for found in pattern.captures_iter(text) {
                let name = found.get(1).or(found.get(2));
                let name = name.map_or("", |name| name.as_str());
                let is_new = !names.iter().any(|other| other == name);
                let is_builtin = BUILTIN_MEMBERS.split(' ').any(|one| one == name);
                if is_new && !is_builtin && names.len() < MAX_FOUND {
                    names.push(name.to_owned());
                }
            }
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_have_no_url() {
        for (parameters, part) in [
            (json!({"path": "={{ 1 }}"}), "path"),
            (json!({"path": "a", "httpMethod": "={{ 1 }}"}), "method"),
        ] {
            let node = json!({"name": "T", "type": "x.webhook", "parameters": parameters});
            let workflow = json!({"id": "w", "nodes": [node]});
            let workflow: Workflow = serde_json::from_value(workflow).unwrap();
            let reason = triggers(&workflow)[0].webhook().unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }
}
