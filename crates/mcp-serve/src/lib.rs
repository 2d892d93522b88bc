//! The edges in: what a server needs to be reached.
mod product;
pub use product::{Product, Service};

/// The `main` of every server.
pub fn run<P: Product>() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
