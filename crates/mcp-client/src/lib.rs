//! An MCP client over Streamable HTTP and over a child process, for all eras of the protocol.
//!
//! ```no_run
//! # async fn example() -> Result<(), mcp_client::Error> {
//! use mcp_client::{Client, ClientInfo, Command, Endpoint};
//!
//! // A server behind a URL …
//! let endpoint = Endpoint::new("http://127.0.0.1:3456/mcp")?.bearer("secret")?;
//! let client = Client::http(endpoint)?;
//! // … or a program that is started and speaks MCP on its stdin and stdout.
//! let command = Command::new("docker-mcp-server").arg("--stdio");
//! let other = Client::stdio(command)?;
//!
//! for client in [client, other] {
//!     let server = client.connect(&ClientInfo::new("example", "1.0")).await?;
//!     println!("{} uses MCP {}", client.peer(), server.protocol_version);
//!     for tool in client.list_tools().await? {
//!         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//!     }
//!     let arguments = serde_json::json!({"container": "web-1"});
//!     let result = client.call_tool("get_container", &arguments).await?;
//!     println!("failed: {}\n{}", result.is_error, result.text());
//!     client.close().await;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * [`Client`] is one connection to one server: era negotiation, requests, notifications, lists.
//!   A request made before [`Client::connect`] is sent as it is (the unversioned era).
//! * [`Endpoint`] is the address of a server, [`Command`] starts one.
//! * [`Builder`] sets the defaults of a client, [`Options`] those of a single request.
//! * [`Handler`] receives the server's notifications and requests; [`Client::listen`] opens the
//!   stream on which the server sends them, in eras that have such a stream.
//! * [`Error`] distinguishes "never sent" from "sent, outcome unknown" from "refused".
//! * [`reaper`] ends child processes even when this process is killed.
//! * [`tls`] sets up TLS for every outgoing connection of the workspace.
//!
//! Results, arguments and ids are relayed byte for byte (`RawValue`). Every wait has a timeout and
//! every read has a size limit. A request whose future is dropped is cancelled at the server.
//! Restarts, retries and circuit breaking are left to the caller.

mod builder;
mod client;
mod connect;
mod counters;
mod discover;
mod error;
mod handler;
mod http;
mod inbound;
mod info;
mod list;
mod listen;
mod meta;
mod options;
mod outgoing;
pub mod reaper;
mod request;
mod response_routes;
mod stdio;
mod sync;
pub mod tls;
mod tools;
mod transport;

pub use builder::Builder;
pub use client::Client;
pub use counters::Counters;
pub use error::{Error, RpcError};
pub use handler::{Handler, Reply};
pub use http::Endpoint;
pub use info::{ClientInfo, EraChoice, ServerInfo};
pub use listen::NotificationStream;
pub use mcp_core::era::Era;
pub use options::{Options, Progress};
pub use stdio::Command;
pub use tools::{CallToolResult, ContentItem, Tool};
