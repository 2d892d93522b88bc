//! `initialize`, as in the revisions 2024-11-05 to 2025-11-25.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{Client, Error};

/// The newest revision with a handshake, and the one that we ask for.
const NEWEST: &str = "2025-11-25";
/// What a server may answer.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST];

/// Who we say we are.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    protocol_version: &'static str,
    capabilities: Value,
    client_info: Value,
}

impl ClientInfo {
    /// A client with a name, a version and no capabilities.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            protocol_version: NEWEST,
            capabilities: json!({}),
            client_info: json!({"name": name, "version": version}),
        }
    }

    /// The same client, able to answer the requests that `capabilities` announces (`sampling`,
    /// `elicitation`, `roots`). They arrive as [`FromServer`](crate::FromServer).
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }
}

/// What the server answered to `initialize`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// The revision both sides speak from now on, for example `2025-11-25`.
    pub protocol_version: String,
    /// The server's `capabilities`.
    #[serde(default)]
    pub capabilities: Box<RawValue>,
    /// The server's `serverInfo`: name, version and more.
    #[serde(default)]
    pub server_info: Box<RawValue>,
    /// How the server wants to be used, for the model.
    #[serde(default)]
    pub instructions: Option<String>,
}

impl Client {
    /// Agrees on a revision and opens a session; replaces the session that there was.
    ///
    /// # Errors
    /// Those of [`Client::request`], and [`Error::Protocol`] when the server chooses a revision that
    /// no handshake knows.
    pub async fn initialize(&self, who: &ClientInfo) -> Result<ServerInfo, Error> {
        self.transport().forget_session();
        let answer = self.request("initialize", who).await?;
        let server: ServerInfo = self.read("initialize", &answer)?;
        let Some(revision) = REVISIONS
            .into_iter()
            .find(|r| *r == server.protocol_version)
        else {
            return Err(self.broken("initialize chose an unknown protocol version"));
        };
        self.transport().agree_on(revision);
        self.notify("notifications/initialized", &()).await?;
        Ok(server)
    }
}
