//! The folders in which hosts keep their files.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folders of this user, and that of the project.
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// The folder of programs' settings: `~/.config` on Linux, `~/Library/Application Support` on macOS,
    /// `%APPDATA%` on Windows.
    pub settings: PathBuf,
    /// The folder of the project.
    pub project: PathBuf,
    variable: fn(&str) -> Option<OsString>,
}

impl Folders {
    /// The folders that the environment names. `None` if it names no home folder.
    pub fn here() -> Option<Self> {
        Self::new(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn new(variable: fn(&str) -> Option<OsString>) -> Option<Self> {
        let home = variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" })?;
        let home = PathBuf::from(home);
        let settings = if cfg!(windows) {
            variable("APPDATA").map(PathBuf::from)
        } else if cfg!(target_os = "macos") {
            Some(home.join("Library/Application Support"))
        } else {
            variable("XDG_CONFIG_HOME").map(PathBuf::from)
        };
        Some(Self {
            settings: settings.unwrap_or_else(|| home.join(".config")),
            home,
            project: std::env::current_dir().unwrap_or_default(),
            variable,
        })
    }

    /// The folder that a variable names, or else one in the home folder.
    pub(crate) fn named(&self, variable: &str, or: &str) -> PathBuf {
        let named = (self.variable)(variable).map(PathBuf::from);
        named.unwrap_or_else(|| self.home.join(or))
    }

    #[cfg(test)]
    pub(crate) fn below(folder: &std::path::Path) -> Self {
        Self {
            home: folder.join("home"),
            settings: folder.join("home/.config"),
            project: folder.join("project"),
            variable: |_| None,
        }
    }
}
