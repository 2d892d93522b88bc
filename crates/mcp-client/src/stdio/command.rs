//! The command that starts a server.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::process;

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

/// A program that serves MCP on its stdin and stdout. Started without a shell. A line of more than 8 MiB ends the connection.
///
/// Has no `Debug`: arguments and environment hold tokens.
#[derive(Clone)]
#[must_use]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
}

impl Command {
    /// The program, looked up in `PATH` unless it is a path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
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

    /// The program's name without its directory, which may be shown and logged.
    pub(super) fn name(&self) -> Arc<str> {
        let name = Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program);
        name.to_string_lossy().into()
    }

    /// Sets all but the program on a command that starts it.
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

    /// The reason why the program was not started, and what to do; `None` if the error says it.
    pub(super) fn fault(&self, error: &io::Error) -> Option<String> {
        let program = Path::new(&self.program);
        // The fault may reach callers, who do not learn the folders of this machine.
        let directory = self.directory.as_deref();
        tracing::info!(program = %program.display(), ?directory, %error, "not started");
        match (error.kind(), directory) {
            (io::ErrorKind::NotFound, Some(directory)) if !directory.is_dir() => Some(
                "its working directory (`cwd`) does not exist: create it, or correct the path"
                    .to_owned(),
            ),
            (io::ErrorKind::NotFound, _) if self.find_program().is_ok() => Some(
                "its interpreter (the first line of the script) or its loader does not exist: install it"
                    .to_owned(),
            ),
            (io::ErrorKind::NotFound, _) if program.components().count() > 1 => Some(
                "there is no such program at its path: correct the path, or install the program".to_owned(),
            ),
            (io::ErrorKind::NotFound, _) => Some(
                "there is no such program in PATH: install it, or name it with its folder".to_owned(),
            ),
            (io::ErrorKind::PermissionDenied, _) => Some(
                "it is not a program, or may not be executed by this user: correct the path, or its mode"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns the file of the program, at its path or in the child's `PATH`.
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

/// Extensions that may be left out in the name of a program: on Windows `npx` is `npx.cmd`, and `uvx` is
/// `uvx.exe`. Only those of `PATHEXT` that can be started without another program.
pub(super) const EXTENSIONS: &[&str] = match cfg!(windows) {
    true => &[".com", ".exe", ".bat", ".cmd"],
    false => &[],
};

/// Returns the file of `program`: at its path, relative to `directory`, or in a folder of `search_path`.
pub(super) fn find_program(
    program: &Path,
    directory: &Path,
    search_path: &OsStr,
    extensions: &[&str],
) -> Option<PathBuf> {
    let find = |path: PathBuf| file(&path, extensions);
    if program.components().count() > 1 {
        return find(directory.join(program));
    }
    let mut folders = std::env::split_paths(search_path);
    folders.find_map(|folder| {
        find(directory.join(folder).join(program)).filter(|file| is_executable(file))
    })
}

/// Returns the path, or one with an extension, that is a file. With extensions a name that has none is
/// not a program: beside `npx.cmd` is an `npx` for other systems.
fn file(path: &Path, extensions: &[&str]) -> Option<PathBuf> {
    let with = |extension: &&str| {
        let mut path = OsString::from(path);
        path.push(extension);
        PathBuf::from(path)
    };
    let is_complete = extensions.is_empty() || path.extension().is_some();
    let own = is_complete.then(|| path.to_owned());
    let mut files = own.into_iter().chain(extensions.iter().map(with));
    files.find(|file| file.is_file())
}

/// True for a file that may be executed. A shell passes over others in the search path.
#[cfg_attr(not(unix), expect(unused_variables, reason = "there is no such right"))]
fn is_executable(file: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::metadata(file).is_ok_and(|file| {
        std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o111 != 0
    });
    #[cfg(not(unix))]
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_executable(file: &Path) {
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(file, mode).unwrap();
        }
        #[cfg(not(unix))]
        let _ = file;
    }

    #[test]
    fn names_without_an_extension_are_found_as_on_the_system() {
        let folder = std::env::temp_dir().join(format!("find-program-{}", std::process::id()));
        let (first, second) = (folder.join("first"), folder.join("second"));
        for folder in [&first, &second] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in ["npx", "npx.cmd", "npx.ps1", "python3.12.exe"] {
            std::fs::write(second.join(file), "").unwrap();
            make_executable(&second.join(file));
        }
        // A file of the same name that is no program.
        #[cfg(unix)]
        std::fs::write(first.join("npx"), "").unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        let windows = &[".exe", ".cmd"][..];
        for (name, extensions, expected) in [
            ("npx", &[][..], Some("npx")),
            ("npx", windows, Some("npx.cmd")),
            ("npx.cmd", windows, Some("npx.cmd")),
            ("python3.12", windows, Some("python3.12.exe")),
            ("python3.12", &[], None),
            ("uvx", windows, None),
        ] {
            let expected = expected.map(|file| second.join(file));
            let found = find_program(Path::new(name), Path::new("/"), &path, extensions);
            assert_eq!(found, expected, "{name} with {extensions:?}");
            let relative = Path::new("second").join(name);
            let found = find_program(&relative, &folder, OsStr::new(""), extensions);
            assert_eq!(found, expected, "{relative:?} with {extensions:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
