//! What every modern request says about itself in `_meta` (2026-07-28, "`_meta`").

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::tasks::EXTENSION;
use crate::era::{Hints, meta_of};
use crate::error::{BadParam, Error};
use crate::revision::MODERN;
use crate::tool::{Capabilities, Level};

const VERSION: &str = "_meta[\"io.modelcontextprotocol/protocolVersion\"]";
const CAPABILITIES: &str = "_meta[\"io.modelcontextprotocol/clientCapabilities\"]";
const LOG_LEVEL: &str = "_meta[\"io.modelcontextprotocol/logLevel\"]";

/// What a request says about itself, checked.
pub(super) struct Envelope {
    /// What the client can be asked for.
    pub(super) capabilities: Capabilities,
    /// The least severe log message that it wants; `None`: none.
    pub(super) log_level: Option<Level>,
    /// It may be answered with a task.
    pub(super) knows_tasks: bool,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
}

/// Reads the fields that every request must carry, and checks the version against its header.
pub(super) fn read(params: Option<&RawValue>, hints: &Hints<'_>) -> Result<Envelope, Error> {
    let malformed = |field: &str, reason: &str| Error::Malformed(BadParam::new(field, reason));
    let meta = params
        .filter(|params| params.get().starts_with('{'))
        .map(|params| meta_of(params).map_err(|error| malformed("params", &error.to_string())));
    let meta = meta.transpose()?.flatten();
    let meta = match meta {
        Some(meta) if meta.get().starts_with('{') => {
            serde_json::from_str::<Meta<'_>>(meta.get())
                .map_err(|error| malformed("_meta", &error.to_string()))?
        }
        Some(_) => return Err(malformed("_meta", "must be an object")),
        // A client of a version that we do not know may not know our `_meta` either: telling it
        // the versions helps more than telling it a field.
        None => {
            return Err(unknown_header(hints).unwrap_or_else(|| malformed("_meta", "is required")));
        }
    };
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
    if version != MODERN {
        return Err(Error::UnsupportedVersion(version));
    }
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
        .map_err(|error| Error::InvalidParams(BadParam::new(LOG_LEVEL, error.to_string())))?;
    let tasks = declared
        .get("extensions")
        .and_then(|extensions| extensions.get(EXTENSION));
    Ok(Envelope {
        knows_tasks: tasks.is_some_and(Value::is_object),
        capabilities: Capabilities::read(&Value::Object(declared)),
        log_level,
    })
}

fn unknown_header(hints: &Hints<'_>) -> Option<Error> {
    let version = hints
        .protocol_version
        .filter(|version| *version != MODERN)?;
    Some(Error::UnsupportedVersion(version.to_owned()))
}
