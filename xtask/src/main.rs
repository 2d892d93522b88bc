//! The chores of the workspace: `cargo xtask` prints what there is.

mod args;
mod bench;
mod cargo;
mod clients;
mod conformance;
mod console;
mod deny;
mod discover;
mod fixture;
mod gateway;
mod guard;
mod http;
mod images;
mod install;
mod instance;
mod layout;
mod parallel;
mod process;
mod run_all;
mod scripted_llm;
mod secrets;
mod servers;
mod services;
mod stop;
mod table;
mod tally;
mod test;

use std::process::ExitCode;

use args::{Chore, Options};
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
    let (chore, options) = match args::parse(raw) {
        Ok(parsed) => parsed,
        Err(error) => {
            console::line(format_args!("error: {error}\n\n{}", args::HELP));
            return Ok(ExitCode::from(2));
        }
    };
    let stop = Stop::on_signals()?;
    let layout = Layout::find(stop.clone());
    let result = layout.and_then(|layout| perform(chore, &layout, &options));
    // Whatever broke off after Ctrl-C broke off because of it.
    if stop.requested() && result.is_err() {
        Ok(ExitCode::from(130))
    } else {
        result
    }
}

fn perform(chore: Chore, layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    match chore {
        Chore::Help => {
            console::line(args::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Chore::RunAll => run_all::run(layout, options),
        Chore::Test => test::run(layout, options),
        Chore::Check => cargo::check(layout),
        Chore::Codegen => cargo::codegen(layout),
        Chore::Bench => bench::chore(layout, options.instructions),
        Chore::Clients => clients::chore(layout),
        Chore::Conformance => conformance::chore(layout),
        Chore::Images => images::chore(layout, options.release, options.check),
        Chore::ScriptedLlm => scripted_llm::run(options.port.unwrap_or(8001), &layout.stop),
    }
}
