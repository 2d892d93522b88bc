//! `cargo xtask portable`: checks the workspace for macOS and Windows, from Linux.
//!
//! A Debian of its own below `target/backends/portable` has what the toolchain here lacks: the sources of
//! the standard library, C compilers for both systems, and wine. For macOS everything is checked but not
//! linked, for which Apple's frameworks would be needed. The Windows programs are built and used.

mod chroot;
mod windows;
mod wine;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;

use crate::args::Options;
use crate::console::Heartbeat;
use crate::layout::Layout;
use chroot::Chroot;

/// The prefix of the lines on the terminal.
const WHO: &str = "portable";

/// The commands for each system, for all crates and features. The tests and `xtask` are for Linux; that
/// `xtask` compiles on macOS lets people work there.
const MACOS: [(&str, &str); 2] = [
    ("clippy", "aarch64-apple-darwin"),
    ("clippy", "x86_64-apple-darwin"),
];
const WINDOWS: (&str, &str) = ("build", wine::TARGET);

/// Makes all checks, or those whose names contain one of the words, and prints a line for each.
///
/// # Errors
/// If the Debian cannot be installed, or something fails beside the checks.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let chroot = Chroot::install(layout)?;
    let mut report = Report {
        words: &options.words,
        passed: 0,
        failed: Vec::new(),
    };
    let is_built = report.check("all crates and programs are built for Windows", || {
        cargo(&chroot, WINDOWS, "--exclude tests --exclude xtask")
    });
    if is_built {
        windows::check(&chroot, &mut report);
    }
    for macos in MACOS {
        let name = format!("all crates compile for {}, without a lint", macos.1);
        report.check(&name, || cargo(&chroot, macos, "--exclude tests"));
    }
    let Report { passed, failed, .. } = &report;
    print_as!(WHO, "{passed} passed, {} failed", failed.len());
    for name in failed {
        print_as!(WHO, "FAIL  {name}");
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Runs `cargo` in the Debian, with the standard library of its own sources, on a copy of the workspace.
fn cargo(
    chroot: &Chroot<'_>,
    (command, target): (&str, &str),
    excluded: &str,
) -> anyhow::Result<()> {
    chroot.copy_workspace()?;
    let log = chroot
        .layout
        .fresh_log(&format!("portable-{command}-{target}"))?;
    let options = "--locked --keep-going --workspace --all-features -Zbuild-std";
    let script = format!("exec cargo {command} {options} --target {target} {excluded}");
    let step = format!("{command} for {target} (up to 30 minutes the first time)");
    let program = chroot.program(&script)?.log_to(&log)?;
    let run = program.run(&chroot.layout.shutdown, Heartbeat::start(WHO, step));
    let output = fs::read_to_string(&log).unwrap_or_default();
    let problem = match run.is_err() {
        true => "error",
        false => "warning",
    };
    let found = output.lines().find(|line| line.starts_with(problem));
    if run.is_err() || found.is_some() {
        let shown = chroot.layout.shown(&log);
        bail!("{} (full log: {shown})", found.unwrap_or("stopped"));
    }
    Ok(())
}

/// Prints the results and counts them.
struct Report<'a> {
    /// Parts of the names of the checks to make; all are made if there is none.
    words: &'a [String],
    passed: usize,
    failed: Vec<String>,
}

impl Report<'_> {
    /// Makes a check, prints its result, and returns false if it has failed.
    fn check(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<()>) -> bool {
        let is_wanted = self.words.is_empty() || self.words.iter().any(|word| name.contains(word));
        if !is_wanted {
            return true;
        }
        let started = Instant::now();
        let result = check();
        let seconds = started.elapsed().as_secs();
        match &result {
            Ok(()) => {
                self.passed += 1;
                print_as!(WHO, "ok    {name} ({seconds} s)");
            }
            Err(error) => {
                self.failed.push(name.to_owned());
                print_as!(WHO, "FAIL  {name} ({seconds} s): {error:#}");
            }
        }
        result.is_ok()
    }
}
