//! The command that starts a server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::process;

use super::find_program::{EXTENSIONS, find_program};

/// Environment variables that a child inherits: locations of programs and files, and the language.
/// All others, and with them our secrets, must be declared.
const INHERITED: &[&str] = match cfg!(windows) {
    true => &[
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    ],
    false => &[
        "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM",
        "TMPDIR", "TZ", "USER",
    ],
};

/// Default limit of one line of a server, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// A program that serves MCP on its stdin and stdout. Started without a shell.
///
/// Has no `Debug`: arguments and environment hold tokens.
#[derive(Clone)]
#[must_use]
pub struct Command {
    pub(super) program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    /// Used on Linux only.
    pub(super) reaper: Option<OsString>,
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

    /// On Linux, starts the server through a [reaper](crate::reaper), so that it and its descendants end
    /// even when this process is killed. `program` calls [`reaper::run`](crate::reaper::run); it is
    /// usually this program: `/proc/self/exe`, also after an update has replaced its file. Without a
    /// reaper they end with the client, but not if this process is killed. On Windows they always do; on
    /// macOS a killed process leaves those behind that go on after their stdin is closed.
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

    /// Sets all but the program on a command that starts it, or a reaper of it.
    pub(super) fn configure(&self, command: &mut process::Command) {
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
            .stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
    }

    /// Returns the file of the program, at its path or in the child's `PATH`.
    ///
    /// # Errors
    /// When there is no such file.
    pub(super) fn find_program(&self) -> io::Result<PathBuf> {
        let is_path = |name: &OsStr| match cfg!(windows) {
            true => name.eq_ignore_ascii_case("PATH"),
            false => name == "PATH",
        };
        let declared = self.environment.iter().rfind(|(name, _)| is_path(name));
        let path = declared.map(|(_, value)| value.clone());
        let path = path.or_else(|| std::env::var_os("PATH"));
        let found = find_program(
            Path::new(&self.program),
            self.directory.as_deref().unwrap_or(Path::new("")),
            &path.unwrap_or_default(),
            EXTENSIONS,
        );
        // The system resolves relative paths before or after it changes the directory.
        std::path::absolute(found.ok_or(io::ErrorKind::NotFound)?)
    }
}
