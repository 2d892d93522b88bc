//! The commands that every server has beside serving: each a struct that clap parses, whose documentation is its help, and
//! a function. The larger ones are files of their own.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser};

use crate::subcommand::Subcommand;
use crate::{Product, Service};

mod connect;
mod doctor;
mod man;
mod schema;
mod token;

impl<S: Service, O: Args + 'static> Product<S, O> {
    /// All commands, in the order of `--help`; then those of this product.
    pub(crate) fn subcommands(&self) -> Vec<Arc<Subcommand<Self>>> {
        // One each: the name, the struct and the function.
        let shared = [
            Subcommand::new("completions", |completions, product: Self| {
                complete(&completions, product.command_line())
            }),
            Subcommand::new("connect", |connect, product: Self| {
                let server = product.options_command();
                connect::run(&connect, &product.identity.name, &server)
            }),
            Subcommand::unparsed(
                "doctor",
                doctor::command::<O>(),
                |command, product: Self, args| doctor::run(product, command, args),
            ),
            Subcommand::new("man", |man, product: Self| {
                man::run(&man, product.command_line())
            }),
            Subcommand::new("schema", |_: schema::Schema, product: Self| {
                schema::run(product.options_command(), product.schema)
            }),
            Subcommand::new("token", |token, product: Self| {
                token::run(token, &product.identity.name)
            }),
        ];
        let own = self.commands.iter().cloned();
        shared.into_iter().map(Arc::new).chain(own).collect()
    }
}

/// Writes to stdout. A closed pipe changes nothing.
fn print(text: &[u8]) -> ExitCode {
    let _ = std::io::stdout().write_all(text);
    ExitCode::SUCCESS
}

/// Writes the reason to stderr.
fn fail(program: &str, reason: impl Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{program}: {reason:#}");
    ExitCode::FAILURE
}

/// Prints the completions of the command line for a shell.
///
/// For bash: PROGRAM completions bash > ~/.local/share/bash-completion/completions/PROGRAM
#[derive(Parser)]
struct Completions {
    shell: clap_complete::Shell,
}

fn complete(completions: &Completions, mut command: clap::Command) -> ExitCode {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(completions.shell, &mut command, name, &mut script);
    print(&script)
}
