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
//! * [`Poster`] posts to an address that does not speak MCP.
//! * [`tls`] sets up TLS for every outgoing connection of the workspace.

mod builder;
mod calls_in_flight;
mod client;
mod connect;
mod error;
mod handler;
mod http;
mod inbound;
mod info;
mod invalid_answer;
mod list;
mod listen;
mod meta;
pub mod oauth;
mod options;
mod outgoing;
mod proxy;
mod request;
mod response_routes;
mod sse;
mod stdio;
pub mod tls;
mod tools;
mod transport;
mod unreachable;

pub use builder::Builder;
pub use client::Client;
pub use error::{Error, RpcError};
pub use handler::{Handler, Reply, Unattributed};
pub use http::{Authorization, Endpoint, Poster, Refusal};
pub use inbound::Counters;
pub use info::{ClientInfo, EraChoice, ServerInfo};
pub use listen::NotificationStream;
pub use mcp_core::era::Era;
pub use mcp_core::revision::Revision;
pub use options::{CallerId, Options, Progress};
pub use proxy::Proxy;
pub use stdio::Command;
pub use tools::{CallToolResult, ContentItem, Tool};
