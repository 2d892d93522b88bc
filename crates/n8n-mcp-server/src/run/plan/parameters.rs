//! Builds requests with the caller's parameters for webhooks, chats and n8n's MCP server.

use mcp_core::tool::ToolError;
use n8n_workflow::trigger::{FormField, FormFieldKind, Trigger, TriggerKind};
use serde_json::{Map, Value, json};
use upstream::http::Method;

use super::http_input::HttpInput;
use crate::builtin_mcp::{McpInputs, McpRequest};
use crate::production_url::{Body, FormValue, REQUEST_ID, UrlRequest};
use crate::start_method::StartMethod;
use crate::variant_name::variant_name;

pub(super) fn url_request(
    trigger: &Trigger<'_>,
    way: StartMethod,
    method: Method,
    path: Vec<String>,
) -> UrlRequest {
    UrlRequest {
        way,
        method,
        path,
        query: Vec::new(),
        headers: Vec::new(),
        body: None,
        replies_at_end: way == StartMethod::Chat || trigger.replies_at_end(),
        credential: None,
    }
}

/// The request to a webhook, with the parameters in its path and in its body or query.
pub(super) fn webhook_request(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    http: HttpInput,
    files: Vec<(String, FormValue)>,
    reserved: Option<&str>,
) -> Result<UrlRequest, ToolError> {
    let webhook = trigger.webhook().map_err(ToolError::conflict)?;
    let method = http.method(&webhook)?;
    let headers = http.headers(reserved)?;
    let mut path = vec!["webhook".to_owned()];
    for segment in webhook.path {
        path.push(match segment.strip_prefix(':') {
            Some(name) => path_parameter(name, parameters.remove(name))?,
            None => segment,
        });
    }
    let (body, mut pairs) = if files.is_empty() {
        webhook_body(&method, parameters)
    } else if takes_body(&method) {
        let texts = query(&parameters).map(|(name, text)| (name, FormValue::Text(text)));
        (Some(Body::Form(texts.chain(files).collect())), Vec::new())
    } else {
        return Err(ToolError::invalid_argument(format!(
            "`files` cannot be sent with {method}: only POST, PUT and PATCH have a body."
        )));
    };
    pairs.extend(query(&http.query));
    let request = url_request(trigger, StartMethod::Webhook, method, path);
    Ok(UrlRequest {
        body,
        query: pairs,
        headers,
        ..request
    })
}

/// Body and query of a request to a webhook.
pub(in crate::run) fn webhook_body(
    method: &Method,
    parameters: Map<String, Value>,
) -> (Option<Body>, Vec<(String, String)>) {
    if takes_body(method) {
        (Some(Body::Json(Value::Object(parameters))), Vec::new())
    } else {
        (None, query(&parameters).collect())
    }
}

fn path_parameter(name: &str, value: Option<Value>) -> Result<String, ToolError> {
    let plain = value.filter(|value| value.is_string() || value.is_number() || value.is_boolean());
    let text = plain.as_ref().map(as_text).unwrap_or_default();
    // n8n splits at slashes; the others would remove the segment.
    if text.is_empty() || text == "." || text == ".." || text.contains('/') {
        return Err(ToolError::invalid_argument(format!(
            "`parameters.{name}` is part of the webhook's path: pass a text or number without slashes."
        )));
    }
    Ok(text)
}

pub(super) fn chat_request(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    request_id: &str,
) -> Result<UrlRequest, ToolError> {
    let id = trigger.chat_id().map_err(ToolError::conflict)?.to_owned();
    let text = chat_text(&mut parameters)?;
    let mut body = parameters;
    body.insert("action".into(), "sendMessage".into());
    body.insert("chatInput".into(), text.into());
    // A new conversation, unless the caller continues one.
    body.entry("sessionId").or_insert_with(|| request_id.into());
    // The chat trigger saves the body, not the headers.
    let metadata = body.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or_else(|| {
        ToolError::invalid_argument("`parameters.metadata` of a chat must be an object.")
    })?;
    metadata.insert("mcpRequestId".into(), request_id.into());
    let path = vec!["webhook".into(), id, "chat".into()];
    Ok(UrlRequest {
        body: Some(Body::Json(Value::Object(body))),
        ..url_request(trigger, StartMethod::Chat, Method::POST, path)
    })
}

/// The message for the chat: `chatInput`, or the only parameter if that is a text.
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

/// The call of n8n's MCP server that starts the trigger.
pub(super) fn mcp_request(
    trigger: &Trigger<'_>,
    way: StartMethod,
    is_first: bool,
    (parameters, http): (Map<String, Value>, HttpInput),
    request_id: &str,
) -> Result<McpRequest, ToolError> {
    // A manual trigger takes parameters only in a test.
    let is_test = way == StartMethod::McpTest
        || trigger.kind == TriggerKind::Manual && !parameters.is_empty();
    Ok(McpRequest {
        trigger: trigger.node.name.clone(),
        way: if is_test { StartMethod::McpTest } else { way },
        is_default: way == StartMethod::McpProduction && is_first,
        inputs: if is_test {
            McpInputs::Item(Value::Object(parameters))
        } else {
            inputs(trigger, parameters, http, request_id)?
        },
    })
}

fn inputs(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    http: HttpInput,
    request_id: &str,
) -> Result<McpInputs, ToolError> {
    match trigger.kind {
        TriggerKind::Webhook => {
            let webhook = trigger.webhook().map_err(ToolError::conflict)?;
            let method = http.method(&webhook)?;
            let mut headers: Map<_, _> = texts(http.headers(None)?);
            headers.insert(REQUEST_ID.into(), request_id.into());
            let mut inputs = json!({"method": method.as_str(), "headers": headers});
            let mut pairs = texts(query(&http.query));
            if takes_body(&method) {
                inputs["body"] = parameters.into();
            } else {
                pairs.extend(texts(query(&parameters)));
            }
            if !pairs.is_empty() {
                inputs["query"] = pairs.into();
            }
            Ok(McpInputs::Webhook(inputs))
        }
        TriggerKind::Chat => chat_text(&mut parameters).map(McpInputs::Chat),
        TriggerKind::Form => {
            let fields = trigger.fields().unwrap_or_default();
            let is_file = |field: &&FormField| matches!(field.kind, FormFieldKind::File { .. });
            let mut files = fields.iter().filter(is_file);
            match files.find(|field| parameters.contains_key(&field.name)) {
                Some(file) => Err(ToolError::invalid_argument(format!(
                    "`parameters.{}` is a file of the form, which n8n's MCP server cannot pass on: \
                     leave it out, or activate the workflow and take the authentication from its \
                     form.",
                    file.name
                ))),
                None => Ok(McpInputs::Form(Value::Object(parameters))),
            }
        }
        _ if parameters.is_empty() => Ok(McpInputs::None),
        kind => Err(ToolError::invalid_argument(format!(
            "Trigger `{}` ({}) takes no parameters. Leave `parameters` out.",
            trigger.node.name,
            variant_name(&kind)
        ))),
    }
}

fn takes_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn texts(pairs: impl IntoIterator<Item = (String, String)>) -> Map<String, Value> {
    let pairs = pairs.into_iter();
    pairs.map(|(name, text)| (name, text.into())).collect()
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
