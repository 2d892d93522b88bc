//! `PROGRAM man [COMMAND]`: the manual page.

use std::process::ExitCode;

use clap::Parser;

use super::print;
use crate::config;

/// Prints the manual page of the program, or of one of its commands: PROGRAM man | man -l -
#[derive(Parser)]
pub(super) struct Man {
    /// Names of the command, such as `token add`.
    command: Vec<String>,
}

const EXIT_STATUS: &str = "\
.SH EXIT STATUS
.TP
\\fB0\\fR
Done; a server: it was stopped by a signal or its client.
.TP
\\fB1\\fR
It failed, or the answer is no. The reason is on stderr.
.TP
\\fB2\\fR
The command line cannot be used.
.TP
\\fB78\\fR
The configuration cannot be used. Each problem is on stderr.
";

/// Runs the command. `program` is the whole command line.
pub(super) fn run(man: &Man, mut program: clap::Command) -> ExitCode {
    // Sets the names of the commands.
    program.build();
    let mut page = &program;
    for name in &man.command {
        let Some(found) = page.find_subcommand(name) else {
            let text = format!("there is no command {name:?}\n");
            return super::fail(program.get_name(), &text);
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
        return super::fail(program.get_name(), &format!("{error}\n"));
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if man.command.is_empty() {
        text += EXIT_STATUS;
        text += &files(&program);
    }
    print(escaped(&text).as_bytes())
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

fn files(program: &clap::Command) -> String {
    let config = match config::has_own_form(program) {
        true => {
            "The configuration, as `schema` describes it; the options of every server are its table [server]."
        }
        false => {
            "Any of the options, in TOML: the names of the flags with _ for \\-, as `schema` describes them."
        }
    };
    let name = program.get_name().replace('-', "\\-");
    format!(
        ".SH FILES
.TP
\\fBThe file that \\-\\-config names\\fR
{config}
.TP
\\fB~/.local/state/{name}\\fR
What it keeps between its runs, such as the key of its session ids; below XDG_STATE_HOME if that is set.
"
    )
}
