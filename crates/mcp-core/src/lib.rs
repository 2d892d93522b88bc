//! The Model Context Protocol without its edges.
pub mod jsonrpc;
pub mod tool;
