//! Turns a list of tools into an MCP server over HTTP and stdio.
//!
#![doc = include_str!("../README.md")]

mod clock;
mod commands;
mod config;
mod drain;
mod followed_files;
mod function;
mod http;
mod key;
mod log;
mod oauth;
mod options;
mod page_data;
mod print;
mod probe;
mod product;
mod run;
mod runtime;
mod secret;
mod shared_sessions;
mod state;
mod stdio;
mod stop;
mod subcommand;
mod telemetry;
mod tls;
mod token_file;
mod tokens;
mod tools;

pub use config::{Problem, expand};
pub use followed_files::FollowedFiles;
pub use http::{Guard, HttpService, Limits, Listener};
pub use key::{Key, process_id};
pub use options::{Command, Options};
pub use page_data::PageData;
pub use product::{NoOptions, OwnPaths, Product, Service};
pub use run::Running;
pub use secret::Secret;
pub use shared_sessions::SharedSessions;
pub use state::{create_private, state_folder};
pub use tls::Tls;
pub use tokens::Tokens;

/// The registry of the metrics that `/metrics` shows.
pub use prometheus_client::registry::Registry;

// Crates that occur in the public interface, so that a server needs no matching versions of them.
pub use {anyhow, axum, clap, mcp_core, schemars};
