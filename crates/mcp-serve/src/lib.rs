//! The edges in: what a server needs to be reached.
mod product;
mod secret;
pub use product::{Product, Service};
pub use secret::Secret;

/// The `main` of every server.
pub fn run<P: Product>() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
