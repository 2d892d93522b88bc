//! The modern era (2026-07-28): no handshake and no session, every request describes itself in its `_meta`.

mod headers;
mod rounds;
mod subscriptions;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::clients::RequestClient;
use super::context::RequestContext;
use super::method::McpMethod;
use super::params::{Params, wrong};
use super::record::RequestRecord;
use super::tasks::EXTENSION;
use super::{Caller, IncomingFrame, Server};
use crate::era::Era;
use crate::error::{Error, supported_versions};
use crate::jsonrpc::{Json, string};
use crate::meta::Meta;
use crate::revision::MODERN;
use crate::tool::{ArgumentError, ClientCapabilities, ClientFacts};

const VERSION: &str = "_meta[\"io.modelcontextprotocol/protocolVersion\"]";
const CAPABILITIES: &str = "_meta[\"io.modelcontextprotocol/clientCapabilities\"]";
const LOG_LEVEL: &str = "_meta[\"io.modelcontextprotocol/logLevel\"]";

/// Cache hints of a list that cannot change while the server runs: 5 minutes bound how long a client
/// misses an upgrade. Private, as a cache that is shared would answer callers without a token.
const CONSTANT: &str = r#""ttlMs":300000,"cacheScope":"private","#;

/// Cache hints of resources, and of lists that can change: stale at once. A client that caches for longer
/// would not ask again when it is told of a change.
const CHANGEABLE: &str = r#""ttlMs":0,"cacheScope":"private","#;

impl Server {
    /// Checks a request, and reads the facts about its client.
    pub(super) fn modern_client(&self, record: &RequestRecord<'_>) -> Result<RequestClient, Error> {
        let RequestRecord {
            request,
            params,
            from,
            method,
            ..
        } = *record;
        let IncomingFrame {
            headers, caller, ..
        } = from;
        let meta = check(params, from)?;
        let mut info = client_info(&meta, &caller.info)?;
        headers::check(&request.method, params, *headers)?;
        if let (McpMethod::CallTool, Some(headers)) = (method, headers) {
            let catalog = self.catalog_of(caller);
            let name = params.name.and_then(|name| string(name.get()));
            let tool = name.and_then(|name| catalog.tool(&name));
            let declared = tool.map(|(tool, _)| tool.header_params());
            headers::check_arguments(declared.unwrap_or_default(), params, headers)?;
        }
        let round = match method.has_rounds() {
            true => Some(self.open_round(&request.method, params, caller)?),
            false => {
                if !method.resumes_tasks() {
                    // There is no way to ask it.
                    info.capabilities = ClientCapabilities::default();
                }
                None
            }
        };
        Ok(RequestClient::modern(caller, info, round))
    }

    /// The answer to a request in the form of this era.
    pub(super) fn decorate(&self, context: &RequestContext<'_>, answer: Answer) -> Answer {
        let caller = context.caller();
        let cache = match context.method {
            McpMethod::ReadResource => CHANGEABLE,
            McpMethod::Discover
            | McpMethod::ListTools
            | McpMethod::ListResources
            | McpMethod::ListTemplates
            | McpMethod::ListPrompts => match self.features.changes {
                Some(_) => CHANGEABLE,
                None => CONSTANT,
            },
            _ => "",
        };
        match answer {
            Answer::Result { json, meta, failed } => {
                let json = self.with_type("complete", cache, &json, &meta, caller);
                Answer::of_tool(json, failed)
            }
            Answer::Task(json) => self.with_type("task", cache, &json, "", caller).into(),
            Answer::NeedsInput(questions) => {
                let asked = self.input_required(context, questions);
                let json = self.with_type("input_required", "", &asked, "", caller);
                json.into()
            }
            Answer::Whole(_) | Answer::Initialized(..) => answer,
        }
    }

    /// `server/discover` (2026-07-28, "Discovery").
    pub(super) fn discover(&self, caller: &Caller) -> Json {
        let mut capabilities = self.capabilities();
        if self.has_tasks(Era::Modern) {
            capabilities["extensions"] = json!({EXTENSION: {}});
        }
        let versions = supported_versions();
        let mut result = json!({"supportedVersions": versions, "capabilities": capabilities});
        self.add_instructions(caller, &mut result);
        result.into()
    }

    /// The result with its `resultType`, `members` and this server's `serverInfo` beside the other members of `meta`.
    fn with_type(
        &self,
        kind: &str,
        members: &str,
        result: &Json,
        meta: &str,
        caller: &Caller,
    ) -> Json {
        let catalog = self.catalog_of(caller);
        let rest = result.as_str().strip_prefix('{').unwrap_or("}");
        let comma = if rest == "}" { "" } else { "," };
        let also = if meta.is_empty() { "" } else { "," };
        let parts = [
            r#"{"resultType":""#,
            kind,
            "\",",
            members,
            r#""_meta":{"#,
            catalog.modern_meta(),
            also,
            meta,
            "}",
            comma,
            rest,
        ];
        Json::from(parts.concat())
    }
}

fn unsupported(version: impl Into<String>, from: &IncomingFrame<'_>) -> Error {
    Error::UnsupportedVersion {
        requested: version.into(),
        is_old_transport: from.is_old_transport,
    }
}

fn malformed(field: &str, reason: &str) -> Error {
    Error::Malformed(ArgumentError::new(field, reason))
}

/// Returns the `_meta` of a request, after a check of its version.
fn check<'a>(params: &Params<'a>, from: &IncomingFrame<'_>) -> Result<Meta<'a>, Error> {
    let named = from.version();
    let missing = |field: &str| malformed(field, "is required");
    let meta = params.modern_meta()?.ok_or_else(|| {
        // A client of an unknown version may have no such `_meta`: the list of versions helps more.
        let unknown = named.filter(|version| *version != MODERN);
        unknown.map_or_else(|| missing("_meta"), |version| unsupported(version, from))
    })?;
    let version = meta.version.ok_or_else(|| missing(VERSION))?;
    let version = string(version.get()).ok_or_else(|| malformed(VERSION, "must be a string"))?;
    if from.headers.is_some() && named != Some(&*version) {
        let header = named.unwrap_or("absent");
        return Err(Error::HeaderMismatch(format!(
            "MCP-Protocol-Version is {header:?} but the body says {version:?}"
        )));
    }
    match version == MODERN && !from.is_old_transport {
        true => Ok(meta),
        false => Err(unsupported(version, from)),
    }
}

/// Reads the client's capabilities; its name is already known to the transport.
fn client_info(meta: &Meta<'_>, known: &ClientFacts) -> Result<ClientFacts, Error> {
    let missing = || malformed(CAPABILITIES, "is required");
    let capabilities = meta.capabilities.ok_or_else(missing)?;
    let declared: Map<String, Value> = serde_json::from_str(capabilities.get())
        .map_err(|_| malformed(CAPABILITIES, "must be an object"))?;
    let level = meta.log_level.map(RawValue::get).map(serde_json::from_str);
    let log_level = level
        .transpose()
        .map_err(|error: serde_json::Error| wrong(LOG_LEVEL, &error.to_string()))?;
    let extensions = declared.get("extensions");
    let tasks = extensions.and_then(|extensions| extensions.get(EXTENSION));
    Ok(ClientFacts {
        supports_tasks: tasks.is_some_and(Value::is_object),
        capabilities: ClientCapabilities::read(&Value::Object(declared)),
        log_level,
        ..known.clone()
    })
}
