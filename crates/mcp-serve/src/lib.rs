//! Turns a list of tools into an MCP server over HTTP and stdio.
//!
#![doc = include_str!("../README.md")]

mod commands;
mod config;
mod followed_files;
mod http;
mod key;
mod log;
mod oauth;
mod options;
mod print;
mod product;
mod run;
mod secret;
mod service;
mod state;
mod stdio;
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
pub use product::{Configuration, NoOptions, Product};
pub use run::Running;
pub use secret::Secret;
pub use service::{
    Checkup, OwnPaths, PageData, Service, ServiceParts, SharedSessions, TokenOwners,
};
pub use state::{create_private, state_folder};
pub use tls::Tls;
pub use tokens::Tokens;

/// The registry of the metrics that `/metrics` shows.
pub use prometheus_client::registry::Registry;

// Crates that occur in the public interface, so that a server needs no matching versions of them.
pub use {anyhow, axum, clap, mcp_core, schemars};
