//! The gateway: every MCP server behind one endpoint, supervised and logged.
//!
//! * [`gateway`]: the running service; [`backend`]: one server behind it.
//! * [`relay`]: forwards requests and answers; [`catalog`]: the merged lists of all backends;
//!   [`tools`]: the gateway's own tools.
//! * [`config`]: the backends and settings, read from one file that is watched for changes.
//! * [`instructions`]: the instructions of the backends for the model.
//! * [`names`]: the public names of the backends' tools.
//! * [`audit`]: records requests that are not relayed.
//! * [`commands`]: the commands beside the gateway itself, such as `explain`.
//! * [`approvals`]: calls that need a person.
//! * [`pins`]: holds back tools whose definition has changed.
//!
//! Roles are in `gateway_access`; the events, and the entries of `pins` and `approvals`, in `gateway_store`.

mod approvals;
mod audit;
mod backend;
mod catalog;
mod commands;
mod config;
mod credentials;
mod gateway;
mod hexadecimal;
mod instructions;
mod metrics;
mod names;
mod pins;
mod product;
mod relay;
mod sanitise;
mod tools;

/// Forwarding a call makes many small and short-lived allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use product::product;
