//! The gateway: every MCP server behind one endpoint, supervised and logged.
//!
//! * [`gateway`]: the running service; [`backend`]: one server behind it.
//! * [`relay`]: forwards requests and answers; [`catalog`]: the merged lists of all backends;
//!   [`tools`]: the gateway's own tools.
//! * [`config`]: the backends and settings, read from one file that is watched for changes.
//! * [`instructions`]: the instructions of the backends for the model.
//! * [`names`]: the public names of the backends' tools.
//! * [`unmatched`]: rules of the configuration that match nothing.
//! * [`audit`]: records requests that are not relayed.
//! * [`servers`]: the table of the servers of this workspace.
//! * [`page`]: what the page shows beside the tools, and the decisions that people make there.
//! * [`commands`]: the commands beside the gateway itself, such as `explain`.
//!
//! Roles are in `gateway_access`, approvals and pinned definitions in `gateway_approvals`, and the database in
//! `gateway_store`.

mod access;
mod audit;
mod backend;
mod catalog;
mod commands;
mod config;
mod credentials;
mod gateway;
mod instructions;
mod metrics;
mod names;
mod owners;
mod page;
mod product;
mod relay;
mod sanitise;
mod servers;
mod tools;
mod unmatched;

/// Forwarding a call makes many small and short-lived allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use product::main;
