//! Plans a run: chooses the trigger and builds the one request that starts it, from the caller's parameters:
//! to a webhook, a chat or a form, or to n8n's MCP server. Sends nothing.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::ToolError;
use n8n_workflow::Workflow;
use n8n_workflow::trigger::{
    COMPUTED_FIELDS, FormField, FormInput, Trigger, TriggerKind, Webhook, triggers,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use upstream::http::Method;
use upstream::http::header::{HeaderName, HeaderValue};
use upstream::http::multipart::Part;

use crate::production_url::{Body, FormPart, REQUEST_ID, UrlRequest};
use crate::start_method::{Access, StartMethod};

/// The chosen trigger, and the request that starts it, with the parameters.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// Name of the trigger node.
    pub(crate) trigger: String,
    pub(crate) way: StartMethod,
    pub(crate) start: Start,
    /// n8n runs the drafts of the workflows that this one calls: so it does with the mode of the editor, and with that
    /// of its own chat.
    pub(crate) runs_drafts: bool,
}

#[derive(Debug)]
pub(crate) enum Start {
    Url(UrlRequest),
    /// The arguments of a tool of n8n's MCP server, without the workflow.
    Mcp(Value),
}

impl RunPlan {
    /// Chooses the trigger and how to start it, and fills in the parameters and the `request_id`.
    ///
    /// Prefers URLs to n8n's MCP server, and among triggers that only that server starts, those
    /// that take parameters. If two are equally good, the caller must choose.
    pub(crate) fn new(
        workflow: &Workflow,
        trigger: Option<&str>,
        mut parameters: Map<String, Value>,
        mut http: HttpInput,
        request_id: &str,
        access: &Access,
    ) -> Result<Self, ToolError> {
        let name = &workflow.name;
        if workflow.is_archived {
            return Err(ToolError::conflict(format!(
                "Workflow \"{name}\" is archived: unarchive_workflow and activate_workflow (toolset \
                 lifecycle) bring it back."
            )));
        }
        let all = triggers(workflow);
        if all.is_empty() {
            return Err(ToolError::conflict(format!(
                "Workflow \"{name}\" has no trigger that is not disabled. Add a Webhook trigger in \
                 n8n."
            )));
        }
        let (trigger, mut way) = match trigger {
            Some(wanted) => named(&all, wanted, access)?,
            None => best(&all, name, access)?,
        };
        if trigger.kind == TriggerKind::Form && way == StartMethod::Form {
            parameters.append(&mut http.files);
        }
        http.check_kind(trigger, way)?;
        let mut start = match way {
            StartMethod::Webhook => {
                let credential = access.credential(trigger);
                let reserved = credential.and_then(|name| access.credentials.header(name));
                http.check_user(access)?;
                let files = file_parts(std::mem::take(&mut http.files))?;
                Start::Url(webhook_request(trigger, parameters, http, files, reserved)?)
            }
            StartMethod::Chat => Start::Url(chat_request(trigger, parameters, request_id)?),
            StartMethod::Form => Start::Url(form_request(trigger, parameters, request_id)?),
            StartMethod::McpProduction | StartMethod::McpManual | StartMethod::McpTest => {
                // A manual trigger takes parameters only in a test.
                if trigger.kind == TriggerKind::Manual && !parameters.is_empty() {
                    way = StartMethod::McpTest;
                }
                let input = (parameters, http);
                Start::Mcp(mcp_arguments(trigger, way, input, request_id)?)
            }
        };
        if let Start::Url(request) = &mut start {
            request.credential = access.credential(trigger).map(str::to_owned);
        }
        let is_production = way == StartMethod::McpProduction;
        Ok(Self {
            runs_drafts: way.is_mcp() && (!is_production || trigger.kind == TriggerKind::Chat),
            trigger: trigger.node.name().to_owned(),
            way,
            start,
        })
    }
}

fn named<'a>(
    all: &'a [Trigger<'_>],
    wanted: &str,
    access: &Access,
) -> Result<(&'a Trigger<'a>, StartMethod), ToolError> {
    let trigger = all.iter().find(|trigger| trigger.node.name() == wanted);
    let trigger = trigger.ok_or_else(|| {
        ToolError::invalid_argument(format!(
            "The workflow has no trigger {wanted:?}. `trigger` is one of: {}.",
            names(all.iter())
        ))
    })?;
    let way = access
        .way(trigger)
        .map_err(|reason| ToolError::conflict(closed(trigger, &reason)))?;
    Ok((trigger, way))
}

fn best<'a>(
    all: &'a [Trigger<'_>],
    name: &str,
    access: &Access,
) -> Result<(&'a Trigger<'a>, StartMethod), ToolError> {
    let (mut open, mut reasons) = (Vec::new(), String::new());
    for trigger in all {
        match access.way(trigger) {
            Ok(way) => open.push((way.rank(trigger.kind), trigger, way)),
            Err(reason) => {
                reasons.push(' ');
                reasons.push_str(&closed(trigger, &reason));
            }
        }
    }
    // Stable, so equals stay in the order of the workflow.
    open.sort_by_key(|(rank, ..)| *rank);
    let mut open = open.into_iter();
    let Some((first, trigger, way)) = open.next() else {
        return Err(ToolError::conflict(format!(
            "Workflow \"{name}\" cannot be started from here.{reasons}"
        )));
    };
    let equals: Vec<_> = open.take_while(|(rank, ..)| *rank == first).collect();
    if equals.is_empty() {
        return Ok((trigger, way));
    }
    let names = names(std::iter::once(trigger).chain(equals.iter().map(|(_, equal, _)| *equal)));
    Err(ToolError::invalid_argument(format!(
        "Workflow \"{name}\" can be started in several ways. Pass `trigger`, one of: {names}."
    )))
}

fn closed(trigger: &Trigger<'_>, reason: &str) -> String {
    format!("Trigger {}: {reason}.", shown(trigger))
}

fn names<'a>(triggers: impl Iterator<Item = &'a Trigger<'a>>) -> String {
    triggers.map(shown).collect::<Vec<_>>().join(", ")
}

fn shown(trigger: &Trigger<'_>) -> String {
    format!("`{}` ({})", trigger.node.name(), trigger.kind)
}

fn url_request(
    trigger: &Trigger<'_>,
    way: StartMethod,
    method: Method,
    path: Vec<String>,
) -> UrlRequest {
    UrlRequest {
        way,
        methods: vec![method.clone()],
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
fn webhook_request(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    http: HttpInput,
    files: Vec<FormPart>,
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
        let texts = query(&parameters).map(|(name, text)| FormPart::text(name, text));
        (Some(Body::Form(texts.chain(files).collect())), Vec::new())
    } else {
        return Err(ToolError::invalid_argument(format!(
            "`files` cannot be sent with {method}: only POST, PUT and PATCH have a body."
        )));
    };
    pairs.extend(query(&http.query));
    let request = url_request(trigger, StartMethod::Webhook, method, path);
    Ok(UrlRequest {
        methods: webhook.methods,
        body,
        query: pairs,
        headers,
        ..request
    })
}

pub(super) fn webhook_body(
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

fn chat_request(
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
        methods: vec![Method::POST, Method::GET],
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

/// Seconds after which n8n ends a test; the most that it accepts.
const TEST_TIMEOUT: u32 = 3_600;

/// The arguments of the call of n8n's MCP server that starts the trigger.
fn mcp_arguments(
    trigger: &Trigger<'_>,
    way: StartMethod,
    (parameters, http): (Map<String, Value>, HttpInput),
    request_id: &str,
) -> Result<Value, ToolError> {
    let name = trigger.node.name();
    if way == StartMethod::McpTest {
        // Pins the trigger's output. n8n saves members beside `json` and hides them from nodes:
        // `mcpRequestId` identifies the execution while n8n waits for its end.
        let pinned = json!([{"json": parameters, "mcpRequestId": request_id}]);
        return Ok(json!({"triggerNodeName": name, "pinData": {name: pinned},
            "timeout": TEST_TIMEOUT}));
    }
    let mode = match way {
        StartMethod::McpProduction => "production",
        _ => "manual",
    };
    let mut arguments = json!({"triggerNodeName": name, "executionMode": mode});
    if let Some(inputs) = inputs(trigger, parameters, http, request_id)? {
        arguments["inputs"] = inputs;
    }
    Ok(arguments)
}

/// The input of the trigger in the form of n8n's MCP server.
fn inputs(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    http: HttpInput,
    request_id: &str,
) -> Result<Option<Value>, ToolError> {
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
            Ok(Some(json!({ "webhookData": inputs })))
        }
        TriggerKind::Chat => {
            let text = chat_text(&mut parameters)?;
            Ok(Some(json!({ "chatInput": text })))
        }
        TriggerKind::Form => {
            let fields = trigger.fields().unwrap_or_default();
            let is_file = |field: &&FormField| matches!(field.input, FormInput::File { .. });
            let mut files = fields.iter().filter(is_file);
            match files.find(|field| parameters.contains_key(&field.name)) {
                Some(file) => Err(ToolError::invalid_argument(format!(
                    "`parameters.{}` is a file of the form, which n8n's MCP server cannot pass on: \
                     leave it out, or activate the workflow and take the authentication from its \
                     form.",
                    file.name
                ))),
                None => Ok(Some(json!({ "formData": parameters }))),
            }
        }
        _ if parameters.is_empty() => Ok(None),
        _ => Err(ToolError::invalid_argument(format!(
            "Trigger {} takes no parameters. Leave `parameters` out.",
            shown(trigger)
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
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Bytes of all headers; Node.js refuses requests with more than 16 KiB.
const MAX_HEADERS: usize = 8 * 1024;
/// Headers that this server or its HTTP client sets, or by which a proxy says where a request comes
/// from: n8n compares that with the addresses that a webhook allows.
const RESERVED: &str = "accept-encoding connection content-encoding content-length content-type expect forwarded host \
    keep-alive te trailer transfer-encoding upgrade x-real-ip";
const RESERVED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-"];

#[derive(Default)]
pub(crate) struct HttpInput {
    pub(crate) method: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) query: Map<String, Value>,
    pub(crate) files: Map<String, Value>,
}

impl HttpInput {
    /// Rejects arguments that a trigger of this kind cannot receive.
    fn check_kind(&self, trigger: &Trigger<'_>, way: StartMethod) -> Result<(), ToolError> {
        let is_webhook = trigger.kind == TriggerKind::Webhook;
        let given = [
            ("method", !is_webhook && self.method.is_some()),
            ("headers", !is_webhook && !self.headers.is_empty()),
            ("query", !is_webhook && !self.query.is_empty()),
            (
                "files",
                way != StartMethod::Webhook && !self.files.is_empty(),
            ),
        ];
        let Some((argument, _)) = given.into_iter().find(|(_, is_wrong)| *is_wrong) else {
            return Ok(());
        };
        let why = if is_webhook {
            "n8n's MCP server cannot pass files on"
        } else {
            "only webhooks take it; pass the data as `parameters`"
        };
        Err(ToolError::invalid_argument(format!(
            "Trigger {} cannot receive `{argument}`: {why}.",
            shown(trigger)
        )))
    }

    /// Rejects a second `authorization`.
    fn check_user(&self, access: &Access) -> Result<(), ToolError> {
        let mut names = self.headers.keys();
        match names.find(|name| name.eq_ignore_ascii_case("authorization")) {
            Some(name) if access.sends_user => Err(ToolError::invalid_argument(format!(
                "`headers` has {name:?}, which this server sets to the user in the address of n8n (N8N_URL, \
                 N8N_WEBHOOK_URL): leave it out."
            ))),
            _ => Ok(()),
        }
    }

    /// The method to use: the given one, if the webhook takes it.
    fn method(&self, webhook: &Webhook) -> Result<Method, ToolError> {
        let wanted = self.method.as_deref().map(str::trim);
        let is_it =
            |one: &&Method| wanted.is_none_or(|wanted| one.as_str().eq_ignore_ascii_case(wanted));
        webhook.methods.iter().find(is_it).cloned().ok_or_else(|| {
            let wanted = wanted.unwrap_or_default();
            let names: Vec<&str> = webhook.methods.iter().map(Method::as_str).collect();
            ToolError::invalid_argument(format!(
                "The webhook does not take `method` {wanted:?}. It takes: {}.",
                names.join(", ")
            ))
        })
    }

    /// The headers, of which none replaces what this server sends, such as the one of the credential
    /// (`reserved`).
    fn headers(&self, reserved: Option<&str>) -> Result<Vec<(String, String)>, ToolError> {
        let mut size = 0;
        let mut headers = Vec::new();
        for (given, value) in &self.headers {
            let wrong = |why: &str| {
                Err(ToolError::invalid_argument(format!(
                    "`headers` has {given:?}, {why}."
                )))
            };
            let name = given.to_ascii_lowercase();
            size += name.len() + value.len();
            if HeaderName::try_from(name.as_str()).is_err() {
                return wrong("which is no name of a header");
            }
            if HeaderValue::try_from(value.as_str()).is_err() {
                return wrong(
                    "whose value cannot be sent: it has a line break or a control character",
                );
            }
            if reserved.is_some_and(|reserved| reserved.eq_ignore_ascii_case(&name)) {
                return wrong(
                    "which holds the configured credential of this webhook (N8N_WEBHOOK_CREDENTIALS): \
                     leave it out",
                );
            }
            let mut reserved = RESERVED.split(' ').chain([REQUEST_ID]);
            let mut prefixes = RESERVED_PREFIXES.iter();
            if reserved.any(|one| one == name) || prefixes.any(|prefix| name.starts_with(prefix)) {
                return wrong("which this server or a proxy sets: leave it out");
            }
            headers.push((name, value.clone()));
        }
        if size > MAX_HEADERS {
            return Err(ToolError::invalid_argument(format!(
                "`headers` has {size} bytes; at most {MAX_HEADERS} are sent."
            )));
        }
        Ok(headers)
    }
}

/// The request that a browser sends for the form with these parameters in its fields.
fn form_request(
    trigger: &Trigger<'_>,
    parameters: Map<String, Value>,
    request_id: &str,
) -> Result<UrlRequest, ToolError> {
    let body = form_body(trigger.fields().as_deref(), parameters)?;
    let mut path = vec!["form".to_owned()];
    path.extend(trigger.form_path().map_err(ToolError::conflict)?);
    Ok(UrlRequest {
        // The trigger saves the query, not the headers.
        query: vec![("mcpRequestId".into(), request_id.into())],
        body: Some(body),
        ..url_request(trigger, StartMethod::Form, Method::POST, path)
    })
}

/// The fields of a form, as a browser sends them. If an expression computes them, their numbers are the
/// names of the parameters.
pub(super) fn form_body(
    fields: Option<&[FormField]>,
    mut parameters: Map<String, Value>,
) -> Result<Body, ToolError> {
    let mut body = Vec::new();
    let Some(fields) = fields else {
        for (key, value) in parameters {
            if !is_number_of_field(&key) {
                return Err(ToolError::invalid_argument(format!(
                    "`parameters.{key}` is not known. {COMPUTED_FIELDS}"
                )));
            }
            if !value.is_null() {
                body.push(FormPart::text(key, as_text(&value)));
            }
        }
        return Ok(Body::Form(body));
    };
    for field in fields {
        let given = parameters.remove(&field.name);
        let preset = field.preset.clone().map(Value::String);
        match given.filter(|value| !value.is_null()).or(preset) {
            Some(value) if field.schema["type"] == "number" && !is_number(&value) => {
                return Err(ToolError::invalid_argument(format!(
                    "`parameters.{}` must be a number: n8n drops other values.",
                    field.name
                )));
            }
            Some(value) => {
                let key = format!("field-{}", field.index);
                match field.input {
                    FormInput::File { several } => {
                        let files = files(&field.name, value, several)?.into_iter();
                        body.extend(files.map(|file| FormPart {
                            field: key.clone(),
                            ..file
                        }));
                    }
                    _ => body.push(FormPart::text(key, as_input(field, value))),
                }
            }
            None if field.required => {
                return Err(ToolError::invalid_argument(format!(
                    "The form asks for `parameters.{}`. {}",
                    field.name,
                    field_names(fields)
                )));
            }
            None => {}
        }
    }
    if let Some(unknown) = parameters.keys().next() {
        return Err(ToolError::invalid_argument(format!(
            "The form has no field {unknown:?}. {}",
            field_names(fields)
        )));
    }
    Ok(Body::Form(body))
}

/// True for `field-0`, `field-1` and so on.
fn is_number_of_field(key: &str) -> bool {
    let number = key.strip_prefix("field-");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
}

/// True for what n8n reads as a number, and for a field that is empty.
fn is_number(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            text.trim().is_empty() || text.trim().parse().is_ok_and(f64::is_finite)
        }
        other => other.is_number(),
    }
}

/// The text that a browser sends: options are a list, even if there is only one.
fn as_input(field: &FormField, value: Value) -> String {
    match value {
        Value::Array(_) => value.to_string(),
        one if field.input == FormInput::List => json!([one]).to_string(),
        one => as_text(&one),
    }
}

fn field_names(fields: &[FormField]) -> String {
    if fields.is_empty() {
        return "It has no fields.".to_owned();
    }
    let names = fields.iter().map(|field| format!("`{}`", field.name));
    format!("Its fields are: {}.", names.collect::<Vec<_>>().join(", "))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArgument {
    name: Option<String>,
    r#type: Option<String>,
    text: Option<String>,
    base64: Option<String>,
}

/// The parts of a form for files by field.
fn file_parts(given: Map<String, Value>) -> Result<Vec<FormPart>, ToolError> {
    let parts = given
        .into_iter()
        .map(|(field, value)| files(&field, value, true));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Parses the value of `field`: a text, an object, or a list of those.
fn files(field: &str, value: Value, several: bool) -> Result<Vec<FormPart>, ToolError> {
    match value {
        Value::Array(all) if several || all.len() == 1 => {
            all.into_iter().map(|one| file(field, one)).collect()
        }
        Value::Array(_) => Err(wrong(field, "takes one file")),
        one => file(field, one).map(|file| vec![file]),
    }
}

fn file(field: &str, value: Value) -> Result<FormPart, ToolError> {
    const SHAPE: &str = "is a file: pass its text, or {\"name\", \"type\", \"text\" or \"base64\"}";
    let given = match value {
        Value::String(text) => FileArgument {
            text: Some(text),
            ..FileArgument::default()
        },
        other => serde_json::from_value(other).map_err(|_| wrong(field, SHAPE))?,
    };
    let (content, name, media_type) = match (given.text, given.base64) {
        (Some(text), None) => (text.into_bytes(), "file.txt", "text/plain"),
        (None, Some(text)) => {
            let content = STANDARD.decode(text.trim());
            let content =
                content.map_err(|_| wrong(field, "has a `base64` that is not valid base64"))?;
            (content, "file.bin", "application/octet-stream")
        }
        _ => return Err(wrong(field, SHAPE)),
    };
    let media_type = given.r#type.unwrap_or_else(|| media_type.to_owned());
    // It becomes a header, so its syntax is checked.
    if Part::text("").mime_str(&media_type).is_err() {
        return Err(wrong(
            field,
            "has a `type` that is not a media type such as text/csv",
        ));
    }
    let name = given.name.unwrap_or_else(|| name.to_owned());
    Ok(FormPart {
        field: field.to_owned(),
        content,
        file: Some((name, media_type)),
    })
}

fn wrong(field: &str, what: &str) -> ToolError {
    ToolError::invalid_argument(format!("`{field}` {what}."))
}
