//! The reasons why a configured backend is not used.

use std::fmt;

use super::BackendKey;

/// The reason why a backend is not used. Completes the sentence "The backend is not used: …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DisabledReason {
    /// Its field `disabled` is set.
    Configured,
    /// This environment variable is not set.
    MissingVariable(String),
    /// Another server of the file has its name.
    Duplicate {
        /// The name in the file.
        name: String,
        key: BackendKey,
    },
    /// Its address is of the local link, where clouds serve the credentials of the machine.
    LinkLocal,
    /// It needs the file `envFile`.
    EnvFile,
}

impl DisabledReason {
    /// Returns true if the backend was meant to be used.
    pub(crate) fn is_fault(&self) -> bool {
        *self != Self::Configured
    }
}

impl fmt::Display for DisabledReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("disabled by the configuration"),
            Self::MissingVariable(name) => {
                write!(f, "the environment variable {name} is not set")
            }
            Self::Duplicate { name, key } => write!(
                f,
                "{name:?} gets the name `{key}`, which another server of the file has: rename one of them"
            ),
            Self::LinkLocal => f.write_str(
                "its address is link-local (169.254.0.0/16, fe80::/10), which needs `allow_link_local = true`",
            ),
            Self::EnvFile => {
                f.write_str("`envFile` is not supported: use `env`, with ${NAME} or file:PATH")
            }
        }
    }
}
