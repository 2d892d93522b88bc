//! Parses the command line.

use std::ffi::OsString;

use lexopt::{Arg, Parser, ValueExt as _};

use crate::servers::{SERVERS, Server};

/// The output of `cargo xtask` without arguments.
const HELP: &str = include_str!("help.txt").trim_ascii_end();
/// The beginning of the lines of a command there.
const COMMAND: &str = "  cargo xtask ";

/// In place of an option: the command takes words without `--`.
pub(crate) const WORDS: &str = "…";

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// `--only`: the servers to start; empty for all.
    pub(crate) only: Vec<&'static Server>,
    /// `--only` of `test`: the area.
    pub(crate) area: Option<String>,
    /// `--format`: the formats of packages; empty for all.
    pub(crate) formats: Vec<String>,
    /// `--profile`: the profile of cargo.
    pub(crate) profile: Option<String>,
    /// `--programs`: the folder of programs that were built before.
    pub(crate) programs: Option<String>,
    /// `--port`: the port on loopback.
    pub(crate) port: Option<u16>,
    /// The words without `--`.
    pub(crate) words: Vec<String>,
    /// `--minutes`: the duration of a soak.
    pub(crate) minutes: Option<u16>,
    flags: Vec<String>,
}

impl Options {
    /// No option but this flag.
    pub(crate) fn with_flag(flag: &str) -> Self {
        Self {
            flags: vec![flag.to_owned()],
            ..Self::default()
        }
    }

    /// Returns true if this flag is set, written without `--`.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|set| set == flag)
    }
}

/// A command line.
#[derive(Debug)]
pub(crate) enum Request<'a> {
    /// Show the help of this command, or of all.
    Help(Option<&'a str>),
    /// Run the command with this name.
    Run(&'a str, Options),
}

/// Returns the help of a command, or of all.
pub(crate) fn help(command: Option<&str>) -> String {
    let Some(command) = command else {
        return HELP.to_owned();
    };
    let is_own = |part: &&str| part.split_whitespace().next() == Some(command);
    let part = HELP.split(COMMAND).skip(1).find(is_own);
    let part = part.unwrap_or_default().split("\n\n").next();
    format!("{COMMAND}{}", part.unwrap_or_default().trim_end())
}

/// Parses the arguments after the program's name. `commands` are the names of all commands, each with
/// its options.
///
/// # Errors
/// One line for the user.
pub(crate) fn parse<'a>(
    args: impl IntoIterator<Item = OsString>,
    commands: impl IntoIterator<Item = (&'a str, &'a [&'a str])>,
) -> Result<Request<'a>, lexopt::Error> {
    let mut parser = Parser::from_args(args);
    let mut options = Options::default();
    let name = match parser.next()? {
        None | Some(Arg::Long("help") | Arg::Short('h')) => return Ok(Request::Help(None)),
        Some(Arg::Value(name)) => name.string()?,
        Some(other) => return Err(other.unexpected()),
    };
    if name == "help" {
        return Ok(Request::Help(None));
    }
    let known = commands.into_iter().find(|(known, _)| *known == name);
    let (command, allowed) = known.ok_or_else(|| format!("there is no command `{name}`"))?;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("help") | Arg::Short('h') => return Ok(Request::Help(Some(command))),
            Arg::Long(option) if !allowed.contains(&option) => {
                return Err(format!("{name} has no option `--{option}`").into());
            }
            Arg::Long("format") => {
                let names = parser.value()?.string()?;
                options.formats.extend(names.split(',').map(str::to_owned));
            }
            Arg::Long("only") if command == "test" => {
                options.area = Some(parser.value()?.string()?);
            }
            Arg::Long("profile") => options.profile = Some(parser.value()?.string()?),
            Arg::Long("programs") => options.programs = Some(parser.value()?.string()?),
            Arg::Long("only") => {
                for name in parser.value()?.string()?.split(',') {
                    let server = server(name)?;
                    if !options.only.iter().any(|other| other.name == server.name) {
                        options.only.push(server);
                    }
                }
            }
            Arg::Long("minutes") => options.minutes = Some(parser.value()?.parse()?),
            Arg::Long("port") => options.port = Some(parser.value()?.parse()?),
            Arg::Value(word) if allowed.contains(&WORDS) => options.words.push(word.string()?),
            Arg::Long(flag) => options.flags.push(flag.to_owned()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Request::Run(command, options))
}

fn server(name: &str) -> Result<&'static Server, String> {
    let is_named = |server: &&Server| server.name == name || server.program == name;
    let found = SERVERS.iter().find(is_named);
    found.ok_or_else(|| format!("there is no service `{name}`: n8n, openhands or docker"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request<'_>, String> {
        let words = line.split_whitespace().map(OsString::from);
        let commands = crate::COMMANDS.iter();
        let commands = commands.map(|(name, options, _)| (*name, *options));
        parse(words, commands).map_err(|error| error.to_string())
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Ok(Request::Run(_, options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn help_is_about_the_command_that_is_named() {
        for (line, command) in [
            ("", None),
            ("help", None),
            ("--help", None),
            ("run-all -h", Some("run-all")),
            ("test --help", Some("test")),
        ] {
            let request = parsed(line).unwrap();
            assert!(
                matches!(request, Request::Help(of) if of == command),
                "{line}"
            );
        }
        for (name, ..) in crate::COMMANDS {
            let help = help(Some(name));
            let heading = help.lines().next().unwrap();
            assert_eq!(heading.split_whitespace().nth(2), Some(*name), "{help}");
            assert!(!help.contains("Downloads are kept"), "{help}");
        }
        assert!(help(Some("test")).ends_with("until Ctrl-C"));
    }

    #[test]
    fn options_come_in_any_order_and_form() {
        let all = options("run-all");
        assert!(all.only.is_empty() && !all.has("no-local") && !all.has("release"));
        for line in [
            "run-all --only docker,n8n --no-local --release",
            "run-all --release --only docker --only=n8n-mcp-server --no-local --only docker",
        ] {
            let some = options(line);
            let names: Vec<_> = some.only.iter().map(|server| server.name).collect();
            assert_eq!(names, ["docker", "n8n"], "{line}");
            assert!(some.has("no-local") && some.has("release"), "{line}");
        }
        let test = options("test --keep --quick");
        assert!(test.has("quick") && test.has("keep"));
        assert_eq!(options("scripted-llm --port 1").port, Some(1));
        assert_eq!(options("nightly a b").words, ["a", "b"]);
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
