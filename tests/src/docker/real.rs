//! Tests on real engines; skipped without an engine.

mod api_version;
mod budgets;
mod canary_shapes;
mod default_tools;
mod diagnose_score;
mod hostile;
mod key_logs;
mod notifications;
mod podman;
mod resources;
mod ssh;
mod tls;
pub(super) mod tools;
