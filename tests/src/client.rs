//! The client against a real server: every era, over both transports.

mod asking;
mod calls;
mod ways;
