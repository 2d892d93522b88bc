//! `PROGRAM completions SHELL`: the completions of the command line.

use std::process::ExitCode;

use clap::Parser;

use super::print;

/// Prints the completions of the command line for a shell.
///
/// For bash: PROGRAM completions bash > ~/.local/share/bash-completion/completions/PROGRAM
#[derive(Parser)]
pub(super) struct Completions {
    shell: clap_complete::Shell,
}

/// Runs the command.
pub(super) fn run(completions: &Completions, mut command: clap::Command) -> ExitCode {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(completions.shell, &mut command, name, &mut script);
    print(&script)
}
