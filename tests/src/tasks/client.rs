//! A client of the fixture: over a transport, or in memory, where time can be skipped.

use std::sync::Arc;

use mcp_client::EraChoice;
use mcp_core::server::{Caller, Connection, IncomingFrame};
use serde_json::{Value, json};

use super::capabilities;
use crate::client::connected;
use crate::harness::{Server, in_memory, initialize, modern_meta, rpc};

pub(super) enum Client {
    Remote(mcp_client::Client),
    Memory {
        memory: Memory,
        /// The declared capabilities, in the modern era.
        capabilities: Option<Value>,
    },
}

/// A connection of a caller to a server in memory.
pub(super) struct Memory {
    pub(super) server: Arc<mcp_core::server::Server>,
    connection: Arc<Connection>,
    caller: Option<Arc<str>>,
}

impl Client {
    /// A client of the modern era that supports tasks.
    pub(super) fn modern(memory: Memory) -> Self {
        Self::declaring(memory, capabilities())
    }

    /// A client of the modern era with these capabilities.
    pub(super) fn declaring(memory: Memory, capabilities: Value) -> Self {
        let capabilities = Some(capabilities);
        Self::Memory {
            memory,
            capabilities,
        }
    }

    /// A client of `revision` after its handshake.
    pub(super) async fn legacy(memory: Memory, revision: &str) -> Self {
        let capabilities = None;
        let mut client = Self::Memory {
            memory,
            capabilities,
        };
        let params = initialize(revision)["params"].take();
        client.ask("initialize", params).await;
        client
    }

    /// A client that supports tasks, over HTTP or, without a server, over stdio.
    pub(super) async fn remote(server: Option<&Server>, era: EraChoice) -> Self {
        Self::Remote(connected(server, era, capabilities()).await.0)
    }

    /// Sends a request and returns its response.
    pub(super) async fn ask(&mut self, method: &str, mut params: Value) -> Value {
        let (memory, capabilities) = match self {
            Self::Remote(client) => {
                return match client.request(method, &params).await {
                    Ok(result) => json!({"result": result}),
                    Err(error) => {
                        json!({"error": error.rpc().unwrap_or_else(|| panic!("{error}"))})
                    }
                };
            }
            Self::Memory {
                memory,
                capabilities,
            } => (memory, capabilities),
        };
        if let Some(capabilities) = capabilities {
            params["_meta"] = modern_meta(capabilities.clone());
        }
        let frame = rpc(method, params).to_string();
        let incoming = IncomingFrame {
            frame: frame.as_bytes(),
            headers: None,
            is_old_transport: false,
            connection: Some(Arc::clone(&memory.connection)),
            caller: Caller::new(memory.caller.clone(), None),
        };
        let answer = memory.server.handle(incoming).await;
        serde_json::from_slice(&answer.body.unwrap()).unwrap()
    }
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            server: in_memory(std::iter::once("mcp-conformance")),
            connection: Arc::default(),
            caller: None,
        }
    }

    /// A connection of another caller to the same server; `None` has no name.
    pub(super) fn as_caller(&self, caller: Option<&str>) -> Self {
        Self {
            server: Arc::clone(&self.server),
            connection: Arc::default(),
            caller: caller.map(Arc::from),
        }
    }
}
