//! The edges out: an MCP client over Streamable HTTP and over a child process.
//!
//! ```no_run
//! # async fn example() -> Result<(), mcp_client::Error> {
//! use mcp_client::{Client, ClientInfo, Endpoint};
//!
//! let endpoint = Endpoint::new("http://127.0.0.1:3456/mcp")?.bearer("secret")?;
//! let client = Client::http(endpoint)?;
//! client.initialize(&ClientInfo::new("example", "1.0")).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let arguments = serde_json::json!({"workflow": "Hello"});
//! let result = client.call_tool("run_workflow", &arguments).await?;
//! # let _ = result.structured_content;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Client`] is one connection to one server: requests, notifications, the handshake, the tools.
//!   A request made before [`Client::initialize`] is sent as it is (the plain dialect).
//! * [`Endpoint`] says where a server listens, [`Command`] how to start one.
//! * [`Builder`] sets what a client does by default and where the server's own messages go
//!   ([`FromServer`]).
//! * [`Error`] tells "never sent" from "sent, outcome unknown" from "refused".
//! * [`tls`] is the one place where TLS is set up, for every outgoing connection of the workspace.
//!
//! Results, arguments and ids are relayed byte for byte (`RawValue`); nothing waits without a
//! timeout and nothing is read without a cap. A request whose future is dropped is cancelled at the
//! server.

mod call;
mod client;
mod error;
mod handshake;
mod http;
mod incoming;
mod outgoing;
mod stdio;
pub mod tls;
mod tools;
mod transport;

pub use call::{Options, Progress};
pub use client::{Builder, Client};
pub use error::{Error, RpcError};
pub use handshake::{ClientInfo, ServerInfo};
pub use http::Endpoint;
pub use incoming::FromServer;
pub use stdio::Command;
pub use tools::{CallToolResult, ContentItem, Tool};
