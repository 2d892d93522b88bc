//! The required `_meta` of modern requests (2026-07-28, "`_meta`").

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::era::Hints;
use crate::error::Error;
use crate::jsonrpc::string;
use crate::meta::Meta;
use crate::revision::MODERN;
use crate::server::params::{Params, wrong};
use crate::server::tasks::EXTENSION;
use crate::tool::{ArgumentError, ClientCapabilities, ClientInfo};

const VERSION: &str = "_meta[\"io.modelcontextprotocol/protocolVersion\"]";
const CAPABILITIES: &str = "_meta[\"io.modelcontextprotocol/clientCapabilities\"]";
const LOG_LEVEL: &str = "_meta[\"io.modelcontextprotocol/logLevel\"]";

fn unsupported(version: impl Into<String>, hints: &Hints<'_>) -> Error {
    Error::UnsupportedVersion {
        requested: version.into(),
        is_old_transport: hints.is_old_transport,
    }
}

fn malformed(field: &str, reason: &str) -> Error {
    Error::Malformed(ArgumentError::new(field, reason))
}

/// Returns the `_meta` of a request, after a check of its version.
pub(super) fn check<'a>(params: &Params<'a>, hints: &Hints<'_>) -> Result<Meta<'a>, Error> {
    let missing = |field: &str| malformed(field, "is required");
    let meta = params.modern_meta()?.ok_or_else(|| {
        // A client of an unknown version may have no such `_meta`: the list of versions helps more.
        let unknown = hints.protocol_version.filter(|version| *version != MODERN);
        unknown.map_or_else(|| missing("_meta"), |version| unsupported(version, hints))
    })?;
    let version = meta.version.ok_or_else(|| missing(VERSION))?;
    let version = string(version.get()).ok_or_else(|| malformed(VERSION, "must be a string"))?;
    if hints.has_headers && hints.protocol_version != Some(&*version) {
        let header = hints.protocol_version.unwrap_or("absent");
        return Err(Error::HeaderMismatch(format!(
            "MCP-Protocol-Version is {header:?} but the body says {version:?}"
        )));
    }
    match version == MODERN && !hints.is_old_transport {
        true => Ok(meta),
        false => Err(unsupported(version, hints)),
    }
}

/// Reads the client's capabilities; its name is already known to the transport.
pub(super) fn client_info(meta: &Meta<'_>, known: &ClientInfo) -> Result<ClientInfo, Error> {
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
    Ok(ClientInfo {
        supports_tasks: tasks.is_some_and(Value::is_object),
        capabilities: ClientCapabilities::read(&Value::Object(declared)),
        log_level,
        ..known.clone()
    })
}
