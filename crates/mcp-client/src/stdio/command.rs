//! The command that starts a server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::process;

use crate::reaper;

/// Environment variables that a child inherits: locations of programs and files, and the language.
/// All others, and with them our secrets, must be declared.
const INHERITED: [&str; 12] = [
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR",
    "TZ", "USER",
];

/// Default limit of one line of a server, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// A program that serves MCP on its stdin and stdout. Started without a shell.
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
    /// The program, looked up in `PATH` unless it is a path.
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

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let arguments = arguments.into_iter();
        arguments.fold(self, |command, argument| command.arg(argument))
    }

    /// Sets an environment variable. Of our own environment the child inherits only `PATH`, `HOME`
    /// and a few more.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working directory; ours by default.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Starts the server through a [reaper], so that it and its descendants end even when this process
    /// is killed. `program` calls [`reaper::run`]; it is usually this program: `/proc/self/exe`, also
    /// after an update has replaced its file. Without a reaper they end with the client, but not if
    /// this process is killed.
    pub fn reaper(mut self, program: impl AsRef<OsStr>) -> Self {
        self.reaper = Some(program.as_ref().to_owned());
        self
    }

    /// Limits one line of the server to this many bytes; 8 MiB by default. A longer line ends the
    /// connection.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// The program's name without its directory, which may be shown and logged.
    pub(super) fn name(&self) -> Arc<str> {
        let name = Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program);
        name.to_string_lossy().into()
    }

    pub(super) fn has_reaper(&self) -> bool {
        self.reaper.is_some()
    }

    /// The command of a new process group, so that descendants of the child can be ended with it.
    ///
    /// # Errors
    /// When there is no such program: the reaper would notice too late to report it.
    pub(super) fn to_process(&self) -> io::Result<process::Command> {
        let mut command = match &self.reaper {
            None => process::Command::new(&self.program),
            Some(reaper) => {
                if !self.program_exists() {
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

    /// Returns true if the program is in the child's `PATH`, or at its path.
    fn program_exists(&self) -> bool {
        let program = Path::new(&self.program);
        let directory = self.directory.clone().unwrap_or_default();
        if program.components().count() > 1 {
            return directory.join(program).is_file();
        }
        let declared = self.environment.iter().rfind(|(name, _)| name == "PATH");
        let path = declared.map(|(_, value)| value.clone());
        let path = path.or_else(|| std::env::var_os("PATH"));
        std::env::split_paths(&path.unwrap_or_default())
            .any(|folder| directory.join(folder).join(program).is_file())
    }
}
