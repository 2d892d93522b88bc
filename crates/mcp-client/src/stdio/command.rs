//! How to start a server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::process;

use crate::reaper;

/// What a child may know of our environment: where programs, files and the user's language are.
/// Everything else, and with it every secret of ours, has to be declared.
const INHERITED: [&str; 12] = [
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR",
    "TZ", "USER",
];

/// Bytes that one line of a server may have, unless set.
const MAX_MESSAGE: usize = 8 << 20;

/// A program that speaks MCP on its stdin and stdout. No shell is involved.
///
/// Has no `Debug`: arguments and environment hold tokens.
#[derive(Clone)]
#[must_use]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    reaper: Option<OsString>,
    pub(super) max_message: usize,
}

impl Command {
    /// A program, looked up in `PATH` unless it is a path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            reaper: None,
            max_message: MAX_MESSAGE,
        }
    }

    /// Adds an argument, passed as it is.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Sets an environment variable. Of our own environment the child sees only `PATH`, `HOME` and
    /// the like.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Where the program runs; where we run unless set.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Starts the server through a [reaper], so that it and what it starts end even when this process
    /// is killed: `program` is one that calls [`reaper::run`], usually this one: `/proc/self/exe` is it
    /// even after an update has replaced its file. Without it they end with the client, but not with
    /// us.
    pub fn reaper(mut self, program: impl AsRef<OsStr>) -> Self {
        self.reaper = Some(program.as_ref().to_owned());
        self
    }

    /// How many bytes one line of the server may have; 8 MiB unless set. A longer one ends the
    /// connection.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// The program's name without its directory: what may be shown and logged.
    pub(super) fn name(&self) -> Arc<str> {
        let name = Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program);
        name.to_string_lossy().into()
    }

    pub(super) fn has_reaper(&self) -> bool {
        self.reaper.is_some()
    }

    /// In a process group of its own, so that what the child starts can be ended with it.
    ///
    /// # Errors
    /// When there is no such program: its reaper would notice too late to tell.
    pub(super) fn to_process(&self) -> io::Result<process::Command> {
        let mut command = match &self.reaper {
            None => process::Command::new(&self.program),
            Some(reaper) => {
                if !self.is_there() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let mut command = process::Command::new(reaper);
                command.arg(reaper::ARGUMENT);
                command.arg(std::process::id().to_string());
                command.arg(&self.program);
                command
            }
        };
        let inherited = INHERITED
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        command
            .args(&self.arguments)
            .env_clear()
            .envs(inherited)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(self.reaper.is_none());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    /// True if the program is in the `PATH` that it will see, or where its path says.
    fn is_there(&self) -> bool {
        let program = Path::new(&self.program);
        let directory = self.directory.clone().unwrap_or_default();
        if program.components().count() > 1 {
            return directory.join(program).is_file();
        }
        let declared = self.environment.iter().rfind(|(name, _)| name == "PATH");
        let path = declared.map(|(_, value)| value.clone());
        let path = path
            .or_else(|| std::env::var_os("PATH"))
            .unwrap_or_default();
        std::env::split_paths(&path).any(|place| directory.join(place).join(program).is_file())
    }
}
