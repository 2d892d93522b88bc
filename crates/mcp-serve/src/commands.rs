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
                print_page(&man, product.command_line())
            }),
            Subcommand::new("schema", |_: schema::Schema, product: Self| {
                schema::run(
                    product.options_command(),
                    product.configuration.map(|own| own.schema),
                )
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

/// Prints the manual page of the program or of a command: PROGRAM man | man -l -
#[derive(Parser)]
struct Man {
    /// Names of the command, such as `token add`.
    command: Vec<String>,
}

/// `program` is the whole command line.
fn print_page(man: &Man, mut program: clap::Command) -> ExitCode {
    // Sets the names of the commands.
    program.build();
    let mut page = &program;
    for name in &man.command {
        let Some(found) = page.find_subcommand(name) else {
            return fail(program.get_name(), format!("there is no command {name:?}"));
        };
        page = found;
    }
    let name = page
        .get_display_name()
        .unwrap_or(page.get_name())
        .to_owned();
    let command = page.clone().name(name).disable_help_flag(true);
    let mut text = Vec::new();
    if let Err(error) = clap_mangen::Man::new(command).render(&mut text) {
        return fail(program.get_name(), error);
    }
    print(escaped(&String::from_utf8_lossy(&text)).as_bytes())
}

/// The page in ASCII: readers of other text need an option.
fn escaped(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for letter in page.chars() {
        match letter.is_ascii() {
            true => text.push(letter),
            false => text.push_str(&format!("\\[u{:04X}]", u32::from(letter))),
        }
    }
    text
}
