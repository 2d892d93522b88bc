//! The commands of the workspace: `cargo xtask` lists them.

#[macro_use]
mod console;

mod bench;
mod checks;
mod clients;
mod conformance;
mod counts;
mod http;
mod install;
mod instance;
mod layout;
mod nightly;
mod package;
mod process;
mod replicas;
mod run_all;
mod scripted_llm;
mod secrets;
mod servers;
mod services;
mod shutdown;
mod soak;
mod test;
mod test_server;

use std::process::ExitCode;

use clap::Parser;

/// The commands of this workspace.
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    after_help = "Downloads are kept under target/backends and used again. Ctrl-C stops everything that was started."
)]
enum Command {
    RunAll(run_all::Options),
    Test(test::Options),
    Nightly(nightly::Options),
    /// Format, lints, documentation, spelling, workflows and dependencies.
    Check,
    /// Update the snapshots and the generated tables of README and docs.
    Codegen,
    Package(package::Options),
}

fn main() -> ExitCode {
    let command = Command::parse();
    let result = shutdown::on_signals().and_then(|()| match &command {
        Command::RunAll(options) => run_all::run(options),
        Command::Test(options) => test::run(options),
        Command::Nightly(options) => nightly::run(options),
        Command::Check => checks::check(),
        Command::Codegen => checks::codegen(),
        Command::Package(options) => package::run(options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // An error after Ctrl-C is its consequence.
        Err(_) if shutdown::requested() => ExitCode::from(130),
        Err(error) => {
            print_line!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
