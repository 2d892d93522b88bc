//! Who we say we are, and what the server said it is.

use mcp_core::era::Era;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Which eras a client tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// The newest that the server speaks: `server/discover` first, then `initialize`, then, if the
    /// server does not know that method either, plain.
    ///
    /// Some old servers exit at the sight of anything but `initialize`: a child that ends during
    /// [`connect`](crate::Client::connect) may be started again with [`EraChoice::Legacy`].
    #[default]
    Newest,
    /// Only 2026-07-28: every request describes itself.
    Modern,
    /// Only 2024-11-05 to 2025-11-25: `initialize` first.
    Legacy,
    /// No handshake at all: JSON-RPC, and nothing around it.
    Unversioned,
}

/// Who we say we are.
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
            protocol_version: mcp_core::revision::Revision::LATEST.as_str(),
            capabilities: json!({}),
            client_info: json!({"name": name, "version": version}),
        }
    }

    /// The same client, able to answer the requests that `capabilities` announces (`sampling`,
    /// `elicitation`, `roots`). They reach its [`Handler`](crate::Handler), in the modern era the
    /// caller as results.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }
}

/// What a server said about itself when it was connected to.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The era, and with it the revision that both sides speak.
    pub era: Era,
    /// The revision both sides speak from now on, for example `2025-11-25`; that of
    /// [`Era::revision`] where none was agreed.
    pub protocol_version: String,
    /// The server's `capabilities`; `{}` in the unversioned era.
    pub capabilities: Box<RawValue>,
    /// The server's `serverInfo`: name, version and more; `null` where it said nothing.
    pub server_info: Box<RawValue>,
    /// How the server wants to be used, for the model.
    pub instructions: Option<String>,
}

/// The JSON `{}`.
pub(crate) fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}
