//! The commands of the program `mcp-gateway` beside the gateway itself. Each is a file of its own.
//!
//! Exit codes: 0 done, 1 the answer is no or it failed, 78 unusable configuration.

mod events;
mod explain;
mod pins;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

/// Runs a command with its arguments, of which the first is the name of the program.
type Run = fn(Vec<OsString>) -> ExitCode;

/// Exit code of an unusable configuration (`EX_CONFIG` of sysexits.h).
const CONFIG_ERROR: u8 = 78;

/// The name of each command, which is the program's first argument.
const COMMANDS: &[(&str, Run)] = &[
    ("events", events::run),
    ("explain", explain::run),
    ("pins", pins::run),
];

/// Prints a line. A closed pipe changes nothing.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs the command that the first argument after the name of the program names; `None` if it names none.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let name = args.get(1)?;
    let (_, run) = COMMANDS.iter().find(|(command, _)| name == command)?;
    args.remove(1);
    Some(run(args))
}
