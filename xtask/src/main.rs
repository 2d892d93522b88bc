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

use args::Options;
use layout::Layout;
use stop::Stop;

/// The name of a chore, the options that it takes, and what does it.
type Chore = (
    &'static str,
    &'static [&'static str],
    fn(&Layout, &Options) -> anyhow::Result<ExitCode>,
);

const CHORES: [Chore; 9] = [
    ("run-all", &["only", "no-local", "release"], run_all::run),
    ("test", &["quick", "keep"], test::run),
    ("check", &[], |layout, _| cargo::check(layout)),
    ("codegen", &[], |layout, _| cargo::codegen(layout)),
    ("conformance", &[], |layout, _| conformance::chore(layout)),
    ("clients", &[], |layout, _| clients::chore(layout)),
    ("bench", &["instructions"], bench::run),
    ("images", &["release", "check"], images::run),
    ("scripted-llm", &["port"], |layout, options| {
        scripted_llm::run(options.port, &layout.stop)
    }),
];

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
    let known = CHORES.map(|(name, options, _)| (name, options));
    let (chore, options) = match args::parse(raw, known) {
        Ok(parsed) => parsed,
        Err(error) => {
            console::line(format_args!("error: {error}\n\n{}", args::HELP));
            return Ok(ExitCode::from(2));
        }
    };
    let Some((_, _, perform)) = CHORES.iter().find(|(name, ..)| Some(*name) == chore) else {
        console::line(args::HELP);
        return Ok(ExitCode::SUCCESS);
    };
    let stop = Stop::on_signals()?;
    let result = Layout::find(stop.clone()).and_then(|layout| perform(&layout, &options));
    // Whatever broke off after Ctrl-C broke off because of it.
    if stop.requested() && result.is_err() {
        Ok(ExitCode::from(130))
    } else {
        result
    }
}
