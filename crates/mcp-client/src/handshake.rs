//! The parties of a connection, as the handshake describes them.

use mcp_core::era::Era;
use mcp_core::revision::Revision;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The eras that a client tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// The newest one that the server supports: tries `server/discover`, then `initialize`, and is
    /// unversioned if the server knows neither method.
    ///
    /// Some old servers exit if the first request is not `initialize`: start a child that ends during
    /// [`connect`](crate::Client::connect) again with [`EraChoice::Legacy`].
    #[default]
    Newest,
    /// Only 2026-07-28: every request describes itself.
    Modern,
    /// Only 2024-11-05 to 2025-11-25: `initialize` first.
    Legacy,
    /// Only this revision of the legacy era.
    Revision(Revision),
    /// No handshake: bare JSON-RPC requests.
    Unversioned,
}

/// The client's name, version and capabilities.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    pub(crate) protocol_version: &'static str,
    pub(crate) capabilities: Value,
    pub(crate) client_info: Value,
}

impl ClientInfo {
    /// A client with a name, a version and no capabilities.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            protocol_version: Revision::LATEST.as_str(),
            capabilities: json!({}),
            client_info: json!({"name": name, "version": version}),
        }
    }

    /// Announces the requests that this client can answer (`sampling`, `elicitation`, `roots`). They
    /// reach its [`Handler`](crate::Handler), or in the modern era the caller, as results.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }
}

/// A server's description of itself, from the handshake.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The era, with the negotiated revision.
    pub era: Era,
    /// The revision of the era, for example `2025-11-25`; see [`Era::revision`].
    pub protocol_version: String,
    /// The server's `capabilities`; `{}` in the unversioned era.
    pub capabilities: Box<RawValue>,
    /// The server's `serverInfo`: name, version and more; `null` if it sent none.
    pub server_info: Box<RawValue>,
    /// Instructions for the model.
    pub instructions: Option<String>,
}

pub(crate) fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

/// The result of `initialize` or `server/discover`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HandshakeResult {
    #[serde(default)]
    pub(crate) protocol_version: String,
    #[serde(default)]
    pub(crate) supported_versions: Vec<String>,
    capabilities: Option<Box<RawValue>>,
    instructions: Option<String>,
    server_info: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: Option<ResultMeta>,
}

#[derive(Deserialize)]
struct ResultMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<Box<RawValue>>,
}

impl HandshakeResult {
    pub(crate) fn into_server_info(self, era: Era) -> ServerInfo {
        let in_meta = self.meta.and_then(|meta| meta.server_info);
        ServerInfo {
            era,
            protocol_version: era.revision().to_owned(),
            capabilities: self.capabilities.unwrap_or_else(empty_object),
            server_info: in_meta.or(self.server_info).unwrap_or_default(),
            instructions: self.instructions,
        }
    }
}
