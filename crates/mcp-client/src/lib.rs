//! The edges out: an MCP client over Streamable HTTP and over a child process, in all eras of the
//! protocol.
//!
//! ```no_run
//! # async fn example() -> Result<(), mcp_client::Error> {
//! use mcp_client::{Client, ClientInfo, Endpoint};
//!
//! let endpoint = Endpoint::new("http://127.0.0.1:3456/mcp")?.bearer("secret")?;
//! let client = Client::http(endpoint)?;
//! let server = client.connect(&ClientInfo::new("example", "1.0")).await?;
//! println!("speaks {}", server.protocol_version);
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
//! * [`Client`] is one connection to one server: finding its era, requests, notifications, lists.
//!   A request made before [`Client::connect`] is sent as it is (the plain dialect).
//! * [`Endpoint`] says where a server listens, [`Command`] how to start one.
//! * [`Builder`] sets what a client does by default, [`Options`] what a single request does.
//! * [`Handler`] takes what the server says and asks of its own accord; [`Client::listen`] opens
//!   the stream on which it says it, where the era has one.
//! * [`Error`] tells "never sent" from "sent, outcome unknown" from "refused".
//! * [`reaper`] ends children even when this process is killed.
//! * [`tls`] is the one place where TLS is set up, for every outgoing connection of the workspace.
//!
//! Results, arguments and ids are relayed byte for byte (`RawValue`); nothing waits without a
//! timeout and nothing is read without a cap. A request whose future is dropped is cancelled at the
//! server. What is deliberately absent: when to start, to retry and to give up, which is up to
//! those who use this.

mod agreed;
mod builder;
mod call;
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
mod outgoing;
pub mod reaper;
mod request;
mod sink;
mod stdio;
pub mod tls;
mod tools;
mod transport;

pub use builder::Builder;
pub use call::{Options, Progress};
pub use client::Client;
pub use counters::Counters;
pub use error::{Error, RpcError};
pub use handler::{Handler, Reply};
pub use http::Endpoint;
pub use info::{ClientInfo, EraChoice, ServerInfo};
pub use listen::NotificationStream;
pub use mcp_core::era::Era;
pub use stdio::Command;
pub use tools::{CallToolResult, ContentItem, Tool};
