//! `cargo xtask portable`: checks the workspace for macOS and Windows, from Linux.
//!
//! A Debian of its own below `target/backends/portable` has what the toolchain here lacks: the sources of
//! the standard library, C compilers for both systems, and wine. For macOS everything is checked but not
//! linked, for which Apple's frameworks would be needed. The Windows programs are built and used.

mod chroot;
mod windows;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use crate::console::Heartbeat;
use crate::layout::Layout;
use chroot::Chroot;

/// The prefix of the lines on the terminal.
const WHO: &str = "portable";

/// The commands for each system, for all crates and features. The tests and `xtask` are for Linux; that
/// `xtask` compiles on macOS lets people work there.
const MACOS: (&str, &str) = ("check", "aarch64-apple-darwin");
const WINDOWS: (&str, &str) = ("build", windows::TARGET);

/// Runs all checks, and prints a line for each.
///
/// # Errors
/// If the Debian cannot be installed, or something fails beside the checks.
pub(crate) fn run(layout: &Layout) -> anyhow::Result<ExitCode> {
    let chroot = Chroot::install(layout)?;
    chroot.copy_workspace()?;
    let mut report = Report { failures: 0 };
    let is_built = report.check("all crates and programs are built for Windows", || {
        cargo(&chroot, WINDOWS, "--exclude tests --exclude xtask")
    });
    if is_built {
        windows::check(&chroot, &mut report);
    }
    report.check("all crates compile for macOS", || {
        cargo(&chroot, MACOS, "--exclude tests")
    });
    match report.failures {
        0 => print_as!(WHO, "everything has passed"),
        failures => print_as!(WHO, "{failures} of the checks have failed"),
    }
    Ok(ExitCode::from(u8::from(report.failures > 0)))
}

/// Runs `cargo` in the Debian, with the standard library of its own sources.
fn cargo(
    chroot: &Chroot<'_>,
    (command, target): (&str, &str),
    excluded: &str,
) -> anyhow::Result<()> {
    let log = chroot
        .layout
        .fresh_log(&format!("portable-{command}-{target}"))?;
    let options = "--locked --keep-going --workspace --all-features -Zbuild-std";
    let script = format!("exec cargo {command} {options} --target {target} {excluded}");
    let step = format!("{command} for {target} (up to 30 minutes the first time)");
    let program = chroot.program(&script)?.log_to(&log)?;
    let run = program.run(&chroot.layout.shutdown, Heartbeat::start(WHO, step));
    run.map_err(|_| {
        let shown = chroot.layout.shown(&log);
        let output = fs::read_to_string(&log).unwrap_or_default();
        let cause = output.lines().find(|line| line.starts_with("error"));
        anyhow::anyhow!("{} (full log: {shown})", cause.unwrap_or("stopped"))
    })
}

/// Prints the results and counts the failures.
struct Report {
    failures: usize,
}

impl Report {
    /// Runs a check, prints its result, and returns true if it has passed.
    fn check(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<()>) -> bool {
        let started = Instant::now();
        let result = check();
        let seconds = started.elapsed().as_secs();
        match &result {
            Ok(()) => print_as!(WHO, "pass  {name} ({seconds} s)"),
            Err(error) => {
                self.failures += 1;
                print_as!(WHO, "FAIL  {name} ({seconds} s): {error:#}");
            }
        }
        result.is_ok()
    }
}
