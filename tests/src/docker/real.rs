//! What only a real engine can show. Skipped where there is none.

mod budgets;
mod canaries;
mod diagnose;
mod live;
mod podman;
mod prompts;
mod resources;
mod tls;
mod tools;
