//! What every modern request says about itself in `_meta` (2026-07-28, "`_meta`").

use serde_json::{Map, Value};

use crate::era::Hints;
use crate::error::{BadParam, Error};
use crate::revision::MODERN;
use crate::server::params::{Meta, Params, wrong};
use crate::server::tasks::EXTENSION;
use crate::tool::{ClientCapabilities, ClientInfo};

const VERSION: &str = "_meta[\"io.modelcontextprotocol/protocolVersion\"]";
const CAPABILITIES: &str = "_meta[\"io.modelcontextprotocol/clientCapabilities\"]";
const LOG_LEVEL: &str = "_meta[\"io.modelcontextprotocol/logLevel\"]";

fn malformed(field: &str, reason: &str) -> Error {
    Error::Malformed(BadParam::new(field, reason))
}

/// The `_meta` of a request that names the version of its header.
pub(super) fn check<'a>(params: &Params<'a>, hints: &Hints<'_>) -> Result<Meta<'a>, Error> {
    // A client of a version that we do not know may not know our `_meta` either: telling it the
    // versions helps more than telling it a field.
    let meta = params.modern_meta()?;
    let meta = meta.ok_or_else(|| {
        unknown_header(hints).unwrap_or_else(|| malformed("_meta", "is required"))
    })?;
    let version = meta
        .version
        .ok_or_else(|| malformed(VERSION, "is required"))?;
    let version: String =
        serde_json::from_str(version.get()).map_err(|_| malformed(VERSION, "must be a string"))?;
    if hints.has_headers && hints.protocol_version != Some(&version) {
        let header = hints.protocol_version.unwrap_or("absent");
        return Err(Error::HeaderMismatch(format!(
            "MCP-Protocol-Version is {header:?} but the body says {version:?}"
        )));
    }
    match version == MODERN {
        true => Ok(meta),
        false => Err(Error::UnsupportedVersion(version)),
    }
}

/// Reads the client's description of itself; its name is known to the transport.
pub(super) fn client_info(meta: &Meta<'_>, known: &ClientInfo) -> Result<ClientInfo, Error> {
    let capabilities = meta
        .capabilities
        .ok_or_else(|| malformed(CAPABILITIES, "is required"))?;
    let declared: Map<String, Value> = serde_json::from_str(capabilities.get())
        .map_err(|_| malformed(CAPABILITIES, "must be an object"))?;
    let level = meta
        .log_level
        .map(|level| serde_json::from_str(level.get()));
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

fn unknown_header(hints: &Hints<'_>) -> Option<Error> {
    let version = hints
        .protocol_version
        .filter(|version| *version != MODERN)?;
    Some(Error::UnsupportedVersion(version.to_owned()))
}
