//! The chores of the workspace: `cargo xtask` prints what there is.

mod args;
mod bench;
mod chores;
mod clients;
mod conformance;
mod console;
mod discover;
mod fixture;
mod gateway;
mod guard;
mod http;
mod identity;
mod images;
mod layout;
mod proc;
mod process;
mod registry;
mod run_all;
mod scripted_llm;
mod secrets;
mod servers;
mod services;
mod stop;
mod sweep;
mod table;
mod tally;
mod test;

use std::process::ExitCode;

use args::Chore;
use layout::Layout;
use stop::Stop;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            console::line(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let mut raw = std::env::args_os().skip(1).peekable();
    // Before everything else: a guard has its own way with signals and arguments.
    if raw.next_if(|first| first == "guard").is_some() {
        return guard::run(raw);
    }
    let chore = match args::parse(raw.map(|arg| arg.to_string_lossy().into_owned())) {
        Ok(chore) => chore,
        Err(error) => {
            console::line(format_args!("error: {error}\n\n{}", args::HELP));
            return Ok(ExitCode::from(2));
        }
    };
    let stop = Stop::on_signals()?;
    let result = Layout::find(stop.clone()).and_then(|layout| perform(&chore, &layout));
    // Whatever broke off after Ctrl-C broke off because of it.
    if stop.requested() && result.is_err() {
        Ok(ExitCode::from(130))
    } else {
        result
    }
}

fn perform(chore: &Chore, layout: &Layout) -> anyhow::Result<ExitCode> {
    match chore {
        Chore::Help => {
            console::line(args::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Chore::RunAll(options) => run_all::run(layout, options),
        Chore::Test(options) => test::run(layout, *options),
        Chore::Check => chores::check(layout),
        Chore::Codegen => chores::codegen(layout),
        Chore::Bench { instructions } => bench::chore(layout, *instructions),
        Chore::Clients => clients::chore(layout, test::in_ci()),
        Chore::Conformance => conformance::chore(layout),
        Chore::Images { release, check } => images::chore(layout, *release, *check),
        Chore::ScriptedLlm { port } => {
            scripted_llm::run(*port, &layout.stop).map(|()| ExitCode::SUCCESS)
        }
    }
}
