//! Tests on real engines; skipped without an engine.

mod budgets;
mod canaries;
mod canary_shapes;
mod diagnose;
mod diagnose_score;
mod notifications;
mod podman;
mod prompts;
mod resources;
mod ssh;
mod tls;
mod tools;
