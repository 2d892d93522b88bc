//! `PROGRAM man [COMMAND]`: the manual page.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::print;
use crate::config;

/// Prints the manual page of the program, or of one of its commands: PROGRAM man | man -l -
#[derive(Parser)]
pub(super) struct Man {
    /// Names of the command, such as `token add`.
    command: Vec<String>,
}

/// The exit codes of the program.
const EXIT_CODES: &[(&str, &str)] = &[
    (
        "0",
        "Done; a server: it was stopped by a signal or its client.",
    ),
    (
        "1",
        "It failed, or the answer is no. The reason is on stderr.",
    ),
    ("2", "The command line cannot be used."),
    (
        "78",
        "The configuration cannot be used. Each problem is on stderr.",
    ),
];

/// Runs the command. `program` is the whole command line.
pub(super) fn run(man: &Man, mut program: clap::Command) -> ExitCode {
    // Sets the names of the commands.
    program.build();
    let is_own_form = config::has_own_form(&program);
    let mut page = &program;
    for name in &man.command {
        let Some(found) = page.find_subcommand(name) else {
            let text = format!("there is no command {name:?}\n");
            return super::fail(program.get_name(), &text);
        };
        page = found;
    }
    let mut text = Vec::new();
    match render(page, is_own_form, man.command.is_empty(), &mut text) {
        Ok(()) => print(escaped(&String::from_utf8_lossy(&text)).as_bytes()),
        Err(error) => super::fail(program.get_name(), &format!("{error}\n")),
    }
}

fn render(
    page: &clap::Command,
    is_own_form: bool,
    is_program: bool,
    text: &mut Vec<u8>,
) -> io::Result<()> {
    let name = page
        .get_display_name()
        .unwrap_or(page.get_name())
        .to_owned();
    let command = page.clone().name(name.clone()).disable_help_flag(true);
    let man = clap_mangen::Man::new(command);
    man.render_title(text)?;
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    if page.get_arguments().next().is_some() {
        man.render_options_section(text)?;
    }
    if page.has_subcommands() {
        man.render_subcommands_section(text)?;
    }
    if is_program {
        let program = page.get_name();
        exit_codes().to_writer(text)?;
        files(program, is_own_form).to_writer(text)?;
        man.render_version_section(text)?;
    }
    Ok(())
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

fn exit_codes() -> Roff {
    let codes = EXIT_CODES
        .iter()
        .map(|(code, text)| (*code, (*text).to_owned()));
    list("EXIT STATUS", codes)
}

fn files(program: &str, is_own_form: bool) -> Roff {
    let config = match is_own_form {
        true => {
            "The configuration, as `schema` describes it; the options of every server are its table [server]."
        }
        false => {
            "Any of the options, in TOML: the names of the flags with _ for -, as `schema` describes them."
        }
    };
    let state = format!("~/.local/state/{program}");
    let state_text = "What it keeps between its runs, such as the key of its session ids; below XDG_STATE_HOME if \
                      that is set.";
    list(
        "FILES",
        [
            ("The file that --config names", config.to_owned()),
            (state.as_str(), state_text.to_owned()),
        ],
    )
}

fn list<'a>(heading: &str, rows: impl IntoIterator<Item = (&'a str, String)>) -> Roff {
    let mut page = Roff::default();
    page.control("SH", [heading]);
    for (term, text) in rows {
        let term: [Inline; 1] = [bold(term)];
        page.control("TP", []).text(term).text([roman(text)]);
    }
    page
}
