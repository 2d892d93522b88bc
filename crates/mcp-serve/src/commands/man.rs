//! `PROGRAM man [COMMAND]`: the manual page.

use std::process::ExitCode;

use clap::Parser;

use super::{fail, print};

/// Prints the manual page of the program or of a command: PROGRAM man | man -l -
#[derive(Parser)]
pub(super) struct Man {
    /// Names of the command, such as `token add`.
    command: Vec<String>,
}

/// Runs the command. `program` is the whole command line.
pub(super) fn run(man: &Man, mut program: clap::Command) -> ExitCode {
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
