//! `PROGRAM check`: finds what is wrong with the options and the files, without serving.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches as _, Id};

use super::print;
use crate::config::{self, Applied, Problem, SetOption, Setting};
use crate::{Command, Key, Product, Service, log};

/// The name of the command.
pub(super) const NAME: &str = "check";

/// Timeout of one question to the service.
const ONLINE_TIMEOUT: Duration = Duration::from_secs(30);

/// The command line: all options of the server, and its own.
pub(super) fn command(options: clap::Command) -> clap::Command {
    let online = Arg::new("online")
        .long("online")
        .action(ArgAction::SetTrue)
        .help("Ask the service as well: does it answer, and take the key");
    let values = Arg::new("values")
        .long("values")
        .action(ArgAction::SetTrue)
        .help("Print the options that are set, and where, without secrets");
    options
        .about("Checks the options and the configuration file, and with --online the service")
        .long_about(
            "Checks the options and the configuration file, and with --online the service.\n\nServes and \
             changes nothing. Prints every problem, as FILE:LINE: KEY: PROBLEM. Exit code: 0 usable, 78 not.",
        )
        .disable_version_flag(true)
        .mut_args(|arg| {
            let is_setting = arg.get_env().is_some();
            arg.hide(!is_setting)
        })
        .args([online, values])
}

/// Runs the command with its arguments, of which the first is its name.
pub(super) fn run<S: Service, O: Args + 'static>(
    product: Product<S, O>,
    command: clap::Command,
    args: &[OsString],
) -> ExitCode {
    let name = product.identity.name.clone();
    let Applied {
        command,
        places,
        mut problems,
    } = config::apply(command, args);
    let command = without_faulty_variables(command, args, &mut problems);
    let settings = command.clone();
    let mut answer = "the configuration is usable".to_owned();
    if let Some(matches) = right_flags(&config::without_values(command), args, &mut problems) {
        let is_online = matches.get_flag("online");
        if matches.get_flag("values") {
            print(values(&config::settings(&settings), &matches, &places).as_bytes());
        }
        match Command::<O>::from_arg_matches(&matches) {
            Ok(options) => match product.problems(options, is_online) {
                Ok(Some(text)) => answer = format!("{answer}; {text}"),
                Ok(None) => {}
                Err(found) => problems.extend(found),
            },
            Err(error) => problems.push(wrong_flag(&error)),
        }
    }
    match problems.as_slice() {
        [] => print(format!("{name}: {answer}\n").as_bytes()),
        problems => config::refuse(&name, problems),
    }
}

/// The options that are set, each with its value, unless that is a secret, and its source.
fn values(settings: &[Setting<'_>], matches: &ArgMatches, places: &HashMap<Id, String>) -> String {
    let mut text = String::new();
    for SetOption { key, value, source } in config::set_options(settings, matches, places) {
        let _ = writeln!(text, "{key} = {value} ({source})");
    }
    text
}

/// Finds the variables with values that cannot be used, and leaves them out.
fn without_faulty_variables(
    command: clap::Command,
    args: &[OsString],
    problems: &mut Vec<Problem>,
) -> clap::Command {
    let lenient = command.clone().ignore_errors(true);
    let given = lenient.try_get_matches_from(args).ok();
    command.mut_args(|arg| {
        let Some(variable) = arg.get_env().map(ToOwned::to_owned) else {
            return arg;
        };
        let id = arg.get_id().as_str();
        let source = given.as_ref().and_then(|given| given.value_source(id));
        let Some(value) = std::env::var_os(&variable) else {
            return arg;
        };
        if source == Some(ValueSource::CommandLine) {
            return arg;
        }
        let setting = Setting {
            key: String::new(),
            arg: &arg,
        };
        let fault = match value.to_str() {
            Some(text) => setting.fault(&[text.to_owned()]),
            None => Some("is no UTF-8 text".to_owned()),
        };
        match fault {
            None => arg,
            Some(text) => {
                problems.push(Problem {
                    place: variable.to_string_lossy().into_owned(),
                    ..Problem::new(text)
                });
                arg.env(clap::builder::Resettable::<clap::builder::OsStr>::Reset)
            }
        }
    })
}

/// Parses the arguments. A wrong one is a problem and left out, until the others can be used or the wrong one
/// is not to be found.
fn right_flags(
    command: &clap::Command,
    args: &[OsString],
    problems: &mut Vec<Problem>,
) -> Option<ArgMatches> {
    let mut args = args.to_vec();
    loop {
        match command.clone().try_get_matches_from(&args) {
            Ok(matches) => return Some(matches),
            Err(error) if error.kind() == ErrorKind::DisplayHelp => error.exit(),
            Err(error) => {
                problems.push(wrong_flag(&error));
                let wrong = place(&error, &args)?;
                args.drain(wrong);
            }
        }
    }
}

/// The place of the flag that an error is about, with its value.
fn place(error: &clap::Error, args: &[OsString]) -> Option<Range<usize>> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    // As in the usage: `--port <PORT>`.
    let flag = text(ContextKind::InvalidArg)?.split(' ').next()?;
    let value = text(ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let found = |at: usize| {
        let arg = args[at].to_str()?;
        let (name, inline) = match arg.split_once('=') {
            Some((name, inline)) if name.starts_with("--") => (name, Some(inline)),
            _ => (arg, None),
        };
        let next = args.get(at + 1).and_then(|next| next.to_str());
        let is_value = |next: &&str| value.map_or(!next.starts_with('-'), |value| *next == value);
        let next = next.filter(is_value).filter(|_| inline.is_none());
        let has_value = value.is_none() || inline.or(next) == value;
        (name == flag && has_value).then(|| at..at + 1 + usize::from(next.is_some()))
    };
    // The first is the name of the command.
    (1..args.len()).find_map(found)
}

fn wrong_flag(error: &clap::Error) -> Problem {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    Problem::new(line.trim_start_matches("error: "))
}

impl<S: Service, O: Args + 'static> Product<S, O> {
    /// The problems of usable options. Asks the service if `is_online`, and returns what it answers.
    fn problems(
        mut self,
        command: Command<O>,
        is_online: bool,
    ) -> Result<Option<String>, Vec<Problem>> {
        let options = command.common.clone();
        let mut problems = Vec::new();
        let mut note = |error: anyhow::Error| problems.push(Problem::new(format!("{error:#}")));
        let _ = log::filter(&options.log).map_err(&mut note);
        let _ = self.check_key(&command).map_err(&mut note);
        let functions = self.functions.clone();
        let tools = self.product_tools(&command.product).choose(&options);
        let _ = tools.map(drop).map_err(&mut note);
        self.functions = functions;
        if !options.stdio {
            let _ = options.tokens().map(drop).map_err(&mut note);
            let _ = options.tls().map(drop).map_err(&mut note);
        }
        let is_opened = match self.check.take() {
            Some(check) => {
                problems.extend((check.problems)(&command.product));
                self.connect = check.connect;
                // All is known without it.
                is_online && problems.is_empty()
            }
            None => true,
        };
        let answer = match is_opened {
            true => self.ask(command, is_online && problems.is_empty()),
            false => Ok(None),
        };
        match answer {
            Ok(answer) if problems.is_empty() => Ok(answer),
            answer => {
                problems.extend(answer.err().unwrap_or_default());
                Err(problems)
            }
        }
    }

    /// Makes the service, and asks it if `is_online`.
    fn ask(self, command: Command<O>, is_online: bool) -> Result<Option<String>, Vec<Problem>> {
        let wrong = |error: anyhow::Error| vec![Problem::new(format!("{error:#}"))];
        let runtime = tokio::runtime::Runtime::new().map_err(|error| wrong(error.into()))?;
        runtime.block_on(async {
            if !is_online {
                let made = (self.connect)(command.product);
                return made.map(|_| None).map_err(wrong);
            }
            let key = Key::random().map_err(wrong)?;
            let running = self.assemble(command, &key).map_err(wrong)?;
            let asked = Arc::clone(running.service()).check(Arc::clone(&running.server));
            let asked = tokio::time::timeout(ONLINE_TIMEOUT, asked).await;
            running.stop().await;
            match asked {
                Ok(Ok(answer)) => Ok(Some(answer)),
                Ok(Err(problems)) => Err(problems.into_iter().map(Problem::new).collect()),
                Err(_) => Err(vec![Problem::new(format!(
                    "the service did not answer within {} s",
                    ONLINE_TIMEOUT.as_secs()
                ))]),
            }
        })
    }
}
