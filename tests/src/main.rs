//! The tests of the workspace, in one binary.
//!
//! `cargo xtask test` runs them against real services; alone, `cargo nextest run --workspace` runs those that need
//! none.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "that is how a test fails"
)]

#[macro_use]
mod harness;

mod architecture;
mod auth;
mod client;
mod commands;
mod committed;
mod docker;
mod documents;
mod edges;
mod examples;
mod gateway;
mod hosts;
mod listener;
mod n8n;
mod openhands;
mod packaging;
mod properties;
mod readme;
mod resume;
mod seed_001;
mod stdio;
mod surface;
mod tasks;
