//! The command line.

use std::ffi::OsString;

use lexopt::{Arg, Parser, ValueExt as _};

use crate::servers::{SERVERS, Server};

/// What `cargo xtask` alone prints.
pub(crate) const HELP: &str = include_str!("help.txt").trim_ascii_end();

/// The options of all chores; each takes some.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The servers to start; none means all.
    pub(crate) only: Vec<&'static Server>,
    /// Start no local service.
    pub(crate) no_local: bool,
    /// Build with optimisations.
    pub(crate) release: bool,
    /// Leave the real services out.
    pub(crate) quick: bool,
    /// Keep the services up afterwards.
    pub(crate) keep: bool,
    /// Measure only what no other work on the machine changes.
    pub(crate) instructions: bool,
    /// Only look whether the project comes up from the images.
    pub(crate) check: bool,
    /// The port on loopback.
    pub(crate) port: Option<u16>,
}

/// Reads the command line without the program's own name. `chores` are their names, and the options
/// that each takes; returns the name of one, or none for the help.
///
/// # Errors
/// One line for the user.
pub(crate) fn parse<'a>(
    args: impl IntoIterator<Item = OsString>,
    chores: impl IntoIterator<Item = (&'a str, &'a [&'a str])>,
) -> Result<(Option<&'a str>, Options), lexopt::Error> {
    let mut parser = Parser::from_args(args);
    let mut options = Options::default();
    let name = match parser.next()? {
        None | Some(Arg::Long("help") | Arg::Short('h')) => return Ok((None, options)),
        Some(Arg::Value(name)) => name.string()?,
        Some(other) => return Err(other.unexpected()),
    };
    if name == "help" {
        return Ok((None, options));
    }
    let Some((chore, allowed)) = chores.into_iter().find(|(known, _)| *known == name) else {
        return Err(format!("there is no chore `{name}`").into());
    };
    while let Some(arg) = parser.next()? {
        let option = match arg {
            Arg::Long("help") | Arg::Short('h') => return Ok((None, options)),
            Arg::Long(option) if allowed.contains(&option) => option.to_owned(),
            Arg::Long(option) => return Err(format!("{name} has no option `--{option}`").into()),
            other => return Err(other.unexpected()),
        };
        match &*option {
            "only" => {
                for name in parser.value()?.string()?.split(',') {
                    let server = server(name)?;
                    if !options.only.iter().any(|other| other.name == server.name) {
                        options.only.push(server);
                    }
                }
            }
            "port" => options.port = Some(parser.value()?.parse()?),
            "no-local" => options.no_local = true,
            "release" => options.release = true,
            "quick" => options.quick = true,
            "keep" => options.keep = true,
            "instructions" => options.instructions = true,
            _ => options.check = true,
        }
    }
    Ok((Some(chore), options))
}

fn server(name: &str) -> Result<&'static Server, String> {
    let is_named = |server: &&Server| server.name == name || server.program == name;
    let found = SERVERS.iter().find(is_named);
    found.ok_or_else(|| format!("there is no service `{name}`: n8n, openhands or docker"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Option<&str>, Options), String> {
        let words = line.split_whitespace().map(OsString::from);
        let chores = crate::CHORES.map(|(name, options, _)| (name, options));
        parse(words, chores).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_a_question_for_help() {
        for line in ["", "help", "--help", "run-all -h", "test --help"] {
            assert_eq!(parsed(line).unwrap().0, None, "{line}");
        }
    }

    #[test]
    fn options_are_read_in_any_order_and_form() {
        let (chore, all) = parsed("run-all").unwrap();
        assert_eq!(chore, Some("run-all"));
        assert!(all.only.is_empty() && !all.no_local && !all.release);
        for line in [
            "run-all --only docker,n8n --no-local --release",
            "run-all --release --only docker --only=n8n-mcp-server --no-local --only docker",
        ] {
            let (_, some) = parsed(line).unwrap();
            let names: Vec<_> = some.only.iter().map(|server| server.name).collect();
            assert_eq!(names, ["docker", "n8n"], "{line}");
            assert!(some.no_local && some.release, "{line}");
        }
        let (_, test) = parsed("test --keep --quick").unwrap();
        assert!(test.quick && test.keep);
        assert_eq!(parsed("scripted-llm --port 1").unwrap().1.port, Some(1));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, word) in [
            ("run", "`run`"),
            ("--fast", "--fast"),
            ("run-all --fast", "`--fast`"),
            ("run-all --quick", "`--quick`"),
            ("run-all --only", "--only"),
            ("run-all --only podman", "`podman`"),
            ("test --quick=yes", "yes"),
            ("check all", "all"),
            ("scripted-llm --port 70000", "70000"),
        ] {
            assert!(parsed(line).unwrap_err().contains(word), "{line}");
        }
    }
}
