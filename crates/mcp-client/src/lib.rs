//! An MCP client over Streamable HTTP and over a child process, for all eras of the protocol.
//!
#![doc = include_str!("../README.md")]
//!
//! # Items
//!
//! * [`Client`] is one connection to one server: era negotiation, requests, notifications, lists.
//!   A request made before [`Client::connect`] is sent as it is (the unversioned era).
//! * [`Endpoint`] is the address of a server, [`Command`] starts one.
//! * [`Builder`] sets the defaults of a client, [`Options`] those of a single request.
//! * [`Handler`] receives the server's notifications and requests; [`Client::listen`] opens the
//!   stream on which the server sends them, in eras that have such a stream.
//! * [`Error`] distinguishes "never sent" from "sent, outcome unknown" from "refused".
//! * [`oauth`] gets tokens for servers that ask for them.
//! * [`Poster`] asks an address that does not speak MCP, [`http_client`] begins a client of one.
//! * [`tls`] sets up TLS for every outgoing connection of the workspace.

mod client;
mod error;
mod handler;
mod handshake;
mod http;
mod inbound;
mod message;
pub mod oauth;
mod options;
mod proxy;
mod sse;
mod stdio;
pub mod tls;

pub use client::{Builder, CallToolResult, Client, ContentItem, NotificationStream, Tool};
pub use error::{Error, RpcError, cause};
pub use handler::{Handler, Reply, Unattributed};
pub use handshake::{ClientInfo, EraChoice, ServerInfo};
pub use http::{Authorization, Endpoint, Poster, TokenRefusal, http_client};
pub use inbound::Counters;
pub use mcp_core::era::Era;
pub use mcp_core::revision::Revision;
pub use options::{CallerId, Options, Progress};
pub use proxy::Proxy;
pub use stdio::Command;
