//! What only a real engine can show. Skipped where there is none.

mod budgets;
mod canaries;
mod diagnose;
mod live;
mod prompts;
mod resources;
mod tools;
