//! The caller's parameters, in the form that the trigger takes.

use mcp_core::tool::ToolError;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::form::fill_in;
use super::{Wish, conflict};
use crate::trigger::{Chat, Field, FieldKind, Kind, Mode, Trigger, Way, Webhook};

/// The one request that starts the workflow.
#[derive(Debug, PartialEq)]
pub(crate) enum Start {
    Url(UrlStart),
    Mcp(McpStart),
}

/// A request to a production URL.
#[derive(Debug, PartialEq)]
pub(crate) struct UrlStart {
    /// A webhook, a chat or a form.
    pub(crate) kind: Kind,
    pub(crate) method: Method,
    /// Segments below n8n's address.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Option<Body>,
    /// The reply tells how the run ended.
    pub(crate) replies_late: bool,
    /// Name of the credential that it is sent with.
    pub(crate) login: Option<String>,
}

/// What a request to a production URL holds.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    Json(Value),
    /// A form (`multipart/form-data`), by names of its fields.
    Fields(Vec<(String, Part)>),
}

/// What is in a field of a form.
#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    File(File),
}

/// A file for a form.
#[derive(Debug, PartialEq)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) content: Vec<u8>,
}

/// A call of `execute_workflow` or `test_workflow` of n8n's built-in MCP server.
#[derive(Debug, PartialEq)]
pub(crate) struct McpStart {
    pub(crate) trigger: String,
    pub(crate) mode: Mode,
    /// n8n 1 takes this trigger. It cannot be told which: it is the first of those that it can
    /// start, of an active workflow.
    pub(crate) is_default: bool,
    pub(crate) inputs: Inputs,
}

/// What that server hands to the trigger.
#[derive(Debug, PartialEq)]
pub(crate) enum Inputs {
    None,
    Webhook(Value),
    Chat(String),
    Form(Value),
    /// What the trigger puts out, in test mode.
    Item(Value),
}

/// The request that goes this way, with the parameters in it.
pub(super) fn fill(
    trigger: &Trigger<'_>,
    is_first: bool,
    way: Way,
    wish: Wish<'_>,
) -> Result<Start, ToolError> {
    let Wish {
        parameters,
        request_id,
        ..
    } = wish;
    match way {
        Way::Webhook(webhook) => call_webhook(webhook, parameters).map(Start::Url),
        Way::Chat(chat) => call_chat(chat, parameters, request_id).map(Start::Url),
        Way::Form(form) => fill_in(form, parameters, request_id).map(Start::Url),
        // Only in test mode a manual trigger can be handed anything.
        Way::Mcp(Mode::Manual) if trigger.kind == Kind::Manual && !parameters.is_empty() => {
            Ok(test(trigger, parameters))
        }
        Way::Mcp(Mode::Test) => Ok(test(trigger, parameters)),
        Way::Mcp(mode) => Ok(Start::Mcp(McpStart {
            trigger: trigger.node.name.clone(),
            mode,
            is_default: mode == Mode::Production && is_first,
            inputs: inputs(trigger, parameters, request_id)?,
        })),
    }
}

fn test(trigger: &Trigger<'_>, parameters: Map<String, Value>) -> Start {
    Start::Mcp(McpStart {
        trigger: trigger.node.name.clone(),
        mode: Mode::Test,
        is_default: false,
        inputs: Inputs::Item(Value::Object(parameters)),
    })
}

fn call_webhook(
    webhook: Webhook,
    mut parameters: Map<String, Value>,
) -> Result<UrlStart, ToolError> {
    let mut path = vec!["webhook".to_owned()];
    for segment in webhook.path {
        path.push(match segment.strip_prefix(':') {
            Some(name) => path_parameter(name, parameters.remove(name))?,
            None => segment,
        });
    }
    let in_query = !takes_body(&webhook.method);
    Ok(UrlStart {
        kind: Kind::Webhook,
        path,
        query: if in_query {
            query(&parameters).collect()
        } else {
            Vec::new()
        },
        body: (!in_query).then_some(Body::Json(Value::Object(parameters))),
        method: webhook.method,
        replies_late: webhook.replies_late,
        login: webhook.login,
    })
}

fn path_parameter(name: &str, value: Option<Value>) -> Result<String, ToolError> {
    let plain = value.filter(|value| value.is_string() || value.is_number() || value.is_boolean());
    let text = plain.as_ref().map(as_text).unwrap_or_default();
    // n8n splits at slashes, and the others would leave out the segment.
    if text.is_empty() || text == "." || text == ".." || text.contains('/') {
        return Err(ToolError::invalid_argument(format!(
            "`parameters.{name}` is part of the webhook's path: pass a text or number without slashes."
        )));
    }
    Ok(text)
}

fn call_chat(
    chat: Chat,
    mut parameters: Map<String, Value>,
    request_id: &str,
) -> Result<UrlStart, ToolError> {
    let text = chat_text(&mut parameters)?;
    let mut body = parameters;
    body.insert("action".into(), "sendMessage".into());
    body.insert("chatInput".into(), text.into());
    // A conversation of its own, unless the caller continues one.
    body.entry("sessionId").or_insert_with(|| request_id.into());
    // The chat trigger keeps the body, not the headers.
    let metadata = body.entry("metadata").or_insert_with(|| json!({}));
    match metadata {
        Value::Object(metadata) => metadata.insert("mcpRequestId".into(), request_id.into()),
        _ => {
            return Err(ToolError::invalid_argument(
                "`parameters.metadata` of a chat must be an object.",
            ));
        }
    };
    Ok(UrlStart {
        kind: Kind::Chat,
        method: Method::POST,
        path: vec!["webhook".into(), chat.id, "chat".into()],
        query: Vec::new(),
        body: Some(Body::Json(Value::Object(body))),
        replies_late: true,
        login: chat.login,
    })
}

/// What is said in the chat: `chatInput`, or the only parameter if that is a text.
fn chat_text(parameters: &mut Map<String, Value>) -> Result<String, ToolError> {
    let key = match parameters.keys().next() {
        Some(only) if parameters.len() == 1 => only.clone(),
        _ => "chatInput".to_owned(),
    };
    match parameters.remove(&key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(ToolError::invalid_argument(
            "The trigger is a chat: pass its message as `parameters.chatInput`.",
        )),
    }
}

fn inputs(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    request_id: &str,
) -> Result<Inputs, ToolError> {
    match trigger.kind {
        Kind::Webhook => {
            let webhook = trigger.webhook().map_err(conflict)?;
            let headers = json!({ "x-mcp-request-id": request_id });
            let method = webhook.method.as_str();
            Ok(Inputs::Webhook(if takes_body(&webhook.method) {
                json!({"method": method, "headers": headers, "body": parameters})
            } else {
                let query: Map<_, _> = query(&parameters).map(|(k, v)| (k, v.into())).collect();
                json!({"method": method, "headers": headers, "query": query})
            }))
        }
        Kind::Chat => chat_text(&mut parameters).map(Inputs::Chat),
        Kind::Form => {
            let fields = trigger.fields();
            let is_file = |field: &&Field| matches!(field.kind, FieldKind::File { .. });
            let mut files = fields.iter().filter(is_file);
            match files.find(|field| parameters.contains_key(&field.name)) {
                Some(file) => Err(ToolError::invalid_argument(format!(
                    "`parameters.{}` is a file of the form, which n8n's MCP server cannot pass on: \
                     leave it out, or activate the workflow and take the authentication from its \
                     form.",
                    file.name
                ))),
                None => Ok(Inputs::Form(Value::Object(parameters))),
            }
        }
        _ if parameters.is_empty() => Ok(Inputs::None),
        kind => Err(ToolError::invalid_argument(format!(
            "Trigger `{}` ({}) takes no parameters. Leave `parameters` out.",
            trigger.node.name,
            kind.as_str()
        ))),
    }
}

fn takes_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn query(parameters: &Map<String, Value>) -> impl Iterator<Item = (String, String)> {
    let given = parameters.iter().filter(|(_, value)| !value.is_null());
    given.map(|(name, value)| (name.clone(), as_text(value)))
}

/// Texts as they are, everything else as JSON.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
