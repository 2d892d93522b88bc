//! The folders in which hosts keep their files.

use std::ffi::OsString;
use std::path::PathBuf;

/// A kind of operating system, by the places of programs' files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Linux, and others with `~/.config`.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl System {
    /// The system that this program was compiled for.
    pub const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Linux
    };
}

/// The folders of this user, and that of the project.
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// The folder of programs' settings: `~/.config` on Linux, `~/Library/Application Support` on macOS,
    /// `%APPDATA%` on Windows.
    pub settings: PathBuf,
    /// The folder of the project.
    pub project: PathBuf,
    /// The system of these folders.
    pub system: System,
    variable: fn(&str) -> Option<OsString>,
}

impl Folders {
    /// The folders that the environment names. `None` if it names no home folder.
    pub fn here() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let system = System::HERE;
        let home = match system {
            System::Windows => variable("USERPROFILE"),
            System::Linux | System::MacOs => variable("HOME"),
        };
        let home = PathBuf::from(home?);
        let settings = match system {
            System::Linux => variable("XDG_CONFIG_HOME").map(PathBuf::from),
            System::MacOs => Some(home.join("Library/Application Support")),
            System::Windows => variable("APPDATA").map(PathBuf::from),
        };
        Some(Self {
            settings: settings.unwrap_or_else(|| home.join(".config")),
            home,
            system,
            project: std::env::current_dir().unwrap_or_default(),
            variable,
        })
    }

    /// The folders of a system as people write them, such as `~`, without a variable that changes them.
    pub fn shown(system: System) -> Self {
        let (home, settings) = match system {
            System::Linux => ("~", "~/.config"),
            System::MacOs => ("~", "~/Library/Application Support"),
            System::Windows => ("%USERPROFILE%", "%APPDATA%"),
        };
        Self {
            home: home.into(),
            settings: settings.into(),
            project: PathBuf::new(),
            system,
            variable: |_| None,
        }
    }

    /// The folder that a variable names, or else one in the home folder.
    pub(crate) fn named(&self, variable: &str, or: &str) -> PathBuf {
        let named = (self.variable)(variable).map(PathBuf::from);
        named.unwrap_or_else(|| self.home.join(or))
    }
}
