//! A command of a program beside the server itself, such as `token`.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{ArgMatches, Parser};

/// A command of the program `P`.
pub(crate) struct Subcommand<P> {
    /// The program's first argument.
    name: &'static str,
    clap: clap::Command,
    run: Box<Run<P>>,
}

type Run<P> = dyn Fn(P, &ArgMatches) -> Result<ExitCode, clap::Error> + Send + Sync;

impl<P> Subcommand<P> {
    /// A command with the arguments `C`, of which the documentation is its help.
    pub(crate) fn new<C: Parser + 'static>(
        name: &'static str,
        run: impl Fn(C, P) -> ExitCode + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            clap: C::command().name(name),
            run: Box::new(move |program, matches| Ok(run(C::from_arg_matches(matches)?, program))),
        }
    }

    pub(crate) fn has_name(&self, name: &OsStr) -> bool {
        name == self.name
    }

    /// Its command line.
    pub(crate) fn clap(&self) -> clap::Command {
        self.clap.clone()
    }

    /// Runs it with its arguments, of which the first is its name.
    pub(crate) fn run(&self, program: P, program_name: &str, args: Vec<OsString>) -> ExitCode {
        let name = format!("{program_name} {}", self.name);
        let matches = self.clap().bin_name(name).get_matches_from(args);
        (self.run)(program, &matches).unwrap_or_else(|error| error.exit())
    }
}
