//! Tests of the gateway in front of real servers.
//!
//! The backends are the fixture (`mcp-conformance`), over stdio and HTTP and in every era; a child that
//! violates the protocol (`mcp-conformance odd`); and third-party servers, if they are installed.

mod access;
mod approvals;
mod child_processes;
mod confirmations;
mod env;
mod events;
mod forwarding;
mod hostile;
mod http_backends;
mod input_requests;
mod isolation;
mod list_changes;
mod many_clients;
mod monitoring;
mod owners;
mod pins;
mod questions;
mod real;
mod reload;
mod replicas;
mod restarts;
mod roles;
mod secrets;
mod seed_000;
mod seed_003;
mod spans;
mod stdio_bridge;
mod test_proxy;
mod truth;
mod unmatched;
mod unusable;
mod views;
