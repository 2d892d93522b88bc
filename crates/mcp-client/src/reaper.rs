//! Ends children even when this process is killed with SIGKILL. On Linux only: on Windows a job object
//! does the same without a process of its own, and on macOS there is nothing that does.
//!
//! A program that starts servers starts itself a second time as the reaper of each: a small process
//! between the two, which leads the process group of the server, notices when its parent is gone, and
//! adopts orphaned descendants of the server. See [`Command::reaper`](crate::Command::reaper).
//!
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     let mut args = std::env::args_os().skip(1);
//!     if args.next().is_some_and(|first| first == mcp_client::reaper::ARGUMENT) {
//!         return mcp_client::reaper::run(args);
//!     }
//!     // The program proper.
//!     ExitCode::SUCCESS
//! }
//! ```

#[cfg(target_os = "linux")]
mod linux;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// The first argument of a program that is started as a reaper.
pub const ARGUMENT: &str = "reap-child";

/// Grace period of a child after its stdin was closed, and again after SIGTERM.
pub(crate) const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The exit code of shells for a program that cannot be started.
const EXIT_CANNOT_START: u8 = 127;

/// Runs the reaper: starts the program that the arguments after [`ARGUMENT`] name, ends it when the
/// parent is gone or has closed the pipe to it, and exits with its exit status.
///
/// Call it first in `main`, above all before threads are started. Other systems than Linux have no
/// reapers and never start one.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(target_os = "linux")]
    return linux::run(args);
    #[cfg(not(target_os = "linux"))]
    {
        drop(args);
        eprintln!("cannot be started: only Linux has reapers");
        ExitCode::from(EXIT_CANNOT_START)
    }
}
