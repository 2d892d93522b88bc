//! A command of a program beside serving.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Parser;

use crate::config::{without_blank_variables, without_values};

/// A command of the program `P`.
pub(crate) struct Subcommand<P> {
    /// Its name is the program's first argument.
    clap: clap::Command,
    run: Box<Run<P>>,
}

/// Runs a command with its command line and its arguments, of which the first is its name.
type Run<P> = dyn Fn(clap::Command, P, &[OsString]) -> ExitCode + Send + Sync;

impl<P> Subcommand<P> {
    /// A command with the arguments `C`, of which the documentation is its help.
    pub(crate) fn new<C: Parser + 'static>(
        name: &'static str,
        run: impl Fn(C, P) -> ExitCode + Send + Sync + 'static,
    ) -> Self {
        Self::unparsed(name, C::command(), move |command, program, args| {
            let command = without_values(without_blank_variables(command));
            let matches = command.get_matches_from(args);
            match C::from_arg_matches(&matches) {
                Ok(command) => run(command, program),
                Err(error) => error.exit(),
            }
        })
    }

    /// A command that parses its arguments itself.
    pub(crate) fn unparsed(
        name: &'static str,
        clap: clap::Command,
        run: impl Fn(clap::Command, P, &[OsString]) -> ExitCode + Send + Sync + 'static,
    ) -> Self {
        Self {
            clap: clap.name(name),
            run: Box::new(run),
        }
    }

    pub(crate) fn has_name(&self, name: &OsStr) -> bool {
        name == self.clap.get_name()
    }

    pub(crate) fn clap(&self) -> clap::Command {
        self.clap.clone()
    }

    /// Runs it with its arguments, of which the first is its name.
    pub(crate) fn run(&self, program: P, program_name: &str, args: &[OsString]) -> ExitCode {
        let name = format!("{program_name} {}", self.clap.get_name());
        (self.run)(self.clap().bin_name(name), program, args)
    }
}
