//! What this server may do, beyond what the engine lets anybody do who can open its socket.
//!
//! Everything here is set by who starts the server, on the command line and in a policy file, and
//! by nobody who calls it. Without a word the server may see every container, and start nothing
//! that could take over the host.

mod create;
mod file;
mod refusal;
mod rule;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use mcp_core::tool::ToolError;

pub(crate) use create::Wanted;
pub(crate) use file::PolicyFile;
pub(crate) use refusal::forbidden;
pub(crate) use rule::Subject;

use self::create::Exceptions;
use self::rule::Rules;

/// The label of what this server has created.
pub(crate) const CREATED: &str = "docker-mcp-server.created";

/// What is allowed.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    rules: Rules,
    only_created: bool,
    no_destructive: bool,
    exec: bool,
    create: Exceptions,
    /// Where builds and compose projects may be read from.
    directories: Vec<PathBuf>,
}

impl Policy {
    /// Reads the rules of a policy.
    /// Errors when a rule is none.
    pub(crate) fn new(policy: PolicyFile) -> anyhow::Result<Self> {
        Ok(Self {
            rules: Rules::parse(&policy.allow, &policy.deny)?,
            only_created: policy.only_created,
            no_destructive: policy.no_destructive,
            exec: policy.exec,
            create: policy.create,
            directories: policy.directories,
        })
    }

    /// Whether `subject` is in sight of this server at all.
    pub(crate) fn permits(&self, subject: &Subject<'_>) -> bool {
        self.rules.permit(subject)
    }

    /// Refuses what the rules put out of bounds.
    /// Errors when they do.
    pub(crate) fn permit(&self, subject: &Subject<'_>) -> Result<(), ToolError> {
        if self.permits(subject) {
            return Ok(());
        }
        Err(forbidden(format!(
            "`{}` is out of bounds for this server: its rules (--allow, --deny) exclude it.",
            subject.name()
        )))
    }

    /// Whether what has these labels may be changed: all, or what this server has created.
    pub(crate) fn may_change(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.only_created || labels.contains_key(CREATED)
    }

    /// Refuses to change what somebody else created, where that is all that may be changed.
    /// Errors when it is.
    pub(crate) fn permit_change(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        if self.may_change(labels) {
            return Ok(());
        }
        Err(forbidden(format!(
            "`{name}` was not created by this server, which was told to change only what it \
             created (--only-created)."
        )))
    }

    /// Refuses what reaches out of a container, unless the policy makes an exception for it.
    /// Errors names the first thing that is not allowed.
    pub(crate) fn check_create(&self, wanted: &Wanted<'_>) -> Result<(), ToolError> {
        self.create.check(wanted)
    }

    /// Refuses to run commands, unless that is switched on.
    /// Errors when it is not.
    pub(crate) fn exec(&self) -> Result<(), ToolError> {
        if self.exec {
            return Ok(());
        }
        Err(forbidden(
            "Commands in containers are switched off. Who runs this server can allow them with \
             --allow-exec.",
        ))
    }

    /// Refuses what may lose data, where that is switched off.
    /// Errors when it is.
    pub(crate) fn destructive(&self) -> Result<(), ToolError> {
        if !self.no_destructive {
            return Ok(());
        }
        Err(forbidden(
            "This server was started with --no-destructive: nothing may be stopped, removed or \
             overwritten through it.",
        ))
    }

    /// The directory at `path`, if builds and compose projects may be read from it.
    /// Errors when it is outside of those that are allowed, or does not exist.
    pub(crate) fn directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        let outside = || {
            forbidden(match self.directories.len() {
                0 => {
                    "No directory may be read. Who runs this server can allow some with \
                     --project-dir."
                }
                _ => "This directory is outside of those that --project-dir allows.",
            })
        };
        let climbs = |part| !matches!(part, Component::RootDir | Component::Normal(_));
        let asked = Path::new(path);
        if !asked.is_absolute() || asked.components().any(climbs) {
            return Err(ToolError::invalid_argument(
                "The directory must be an absolute path without `..`.",
            ));
        }
        // Nothing is said about what exists outside.
        if !self.directories.iter().any(|root| asked.starts_with(root)) {
            return Err(outside());
        }
        let real = asked.canonicalize();
        let real = real.map_err(|_| ToolError::not_found("There is no such directory."))?;
        let roots = self
            .directories
            .iter()
            .filter_map(|root| root.canonicalize().ok());
        // A link may lead out.
        if !roots.into_iter().any(|root| real.starts_with(root)) {
            return Err(outside());
        }
        Ok(real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_closed_unless_opened() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let (inside, text) = (dir.join("."), dir.to_str().unwrap());
        assert!(Policy::default().directory(text).is_err());
        let policy = Policy {
            directories: vec![inside],
            ..Policy::default()
        };
        assert_eq!(policy.directory(text).unwrap(), dir);
        for outside in ["/", "/etc", "tmp", &format!("{text}/../etc"), ""] {
            assert!(policy.directory(outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn what_is_dangerous_is_off_until_said() {
        let policy = Policy::default();
        assert!(policy.exec().is_err() && policy.destructive().is_ok());
    }
}
