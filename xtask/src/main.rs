//! The commands of the workspace: `cargo xtask` lists them.

#[macro_use]
mod console;

mod args;
mod bench;
mod cargo;
mod checks;
mod clients;
mod conformance;
mod counts;
mod http;
mod images;
mod install;
mod instance;
mod layout;
mod nextest;
mod nginx;
mod nightly;
mod openhands_versions;
mod package;
mod parallel;
mod process;
mod progress;
mod reaper;
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

use anyhow::Context as _;
use args::{Options, Request};
use layout::Layout;
use shutdown::Shutdown;

/// The name of a command, its options, and its function.
type Command = (
    &'static str,
    &'static [&'static str],
    fn(&Layout, &Options) -> anyhow::Result<ExitCode>,
);

const COMMANDS: &[Command] = &[
    ("run-all", &["only", "no-local", "release"], run_all::run),
    ("test", &["quick", "only", "keep"], test::run),
    ("nightly", &[args::WORDS], nightly::run),
    ("check", &[], |layout, _| cargo::check(layout)),
    ("codegen", &[], |layout, _| cargo::codegen(layout)),
    ("conformance", &[], |layout, _| conformance::command(layout)),
    ("clients", &[], |layout, _| clients::command(layout)),
    ("bench", &[], |layout, _| bench::run(layout)),
    ("soak", &["minutes"], soak::run),
    (
        "replicas",
        &["profile", "programs", args::WORDS],
        replicas::run,
    ),
    (
        "openhands-versions",
        &[args::WORDS],
        openhands_versions::run,
    ),
    ("openhands-app", &[], |layout, _| {
        openhands_versions::run_app(layout)
    }),
    (
        "package",
        &["format", "programs", "check", args::WORDS],
        package::run,
    ),
    ("scripted-llm", &["port"], |layout, options| {
        scripted_llm::run(options.port, &layout.shutdown)
    }),
];

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        print_line!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1).peekable();
    // Before everything else: a reaper handles signals and arguments itself.
    if args.next_if(|first| first == reaper::COMMAND).is_some() {
        return reaper::run(args);
    }
    let known = COMMANDS.iter().map(|(name, options, _)| (*name, *options));
    let (command, options) = match args::parse(args, known) {
        Ok(Request::Run(command, options)) => (command, options),
        Ok(Request::Help(command)) => {
            print_line!("{}", args::help(command));
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => {
            print_line!("error: {error}\n\n{}", args::help(None));
            return Ok(ExitCode::from(2));
        }
    };
    let found = COMMANDS.iter().find(|(name, ..)| *name == command);
    let (_, _, perform) = found.context("no such command")?;
    let shutdown = Shutdown::on_signals()?;
    let result = Layout::find(shutdown.clone()).and_then(|layout| perform(&layout, &options));
    // An error after Ctrl-C is its consequence.
    if shutdown.requested() && result.is_err() {
        return Ok(ExitCode::from(130));
    }
    result
}
