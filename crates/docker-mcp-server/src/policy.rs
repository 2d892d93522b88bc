//! The operator's policy: it restricts this server beyond what the engine restricts, which is nothing
//! for a program that can open its socket.
//!
//! The operator sets it on the command line and in a policy file; no client can change it. By default
//! the server may see every container, and create none that could take over the host.

mod create;
mod file;
mod rule;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use mcp_core::tool::{ToolError, ToolErrorKind};

pub(crate) use create::PrivilegeRequest;
pub(crate) use file::PolicyFile;
pub(crate) use rule::Subject;

use self::rule::Rules;

/// The label of what this server has created.
pub(crate) const CREATED: &str = "docker-mcp-server.created";

/// The rules and settings of the operator.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    rules: Rules,
    settings: PolicyFile,
}

/// The error of a call that the operator's options forbid.
pub(crate) fn forbidden(text: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Forbidden, text)
}

fn excluded(name: &str) -> String {
    format!(
        "`{name}` is not accessible through this server: its rules (--allow, --deny) exclude it."
    )
}

fn allow_if(allowed: bool, refusal: impl FnOnce() -> String) -> Result<(), ToolError> {
    match allowed {
        true => Ok(()),
        false => Err(forbidden(refusal())),
    }
}

impl Policy {
    /// Parses the rules of a policy.
    /// Errors when a rule is not valid.
    pub(crate) fn new(settings: PolicyFile) -> anyhow::Result<Self> {
        let rules = Rules::parse(&settings.allow, &settings.deny)?;
        Ok(Self { rules, settings })
    }

    /// Whether `subject` is visible to this server.
    pub(crate) fn permits(&self, subject: &Subject<'_>) -> bool {
        self.rules.permit(subject)
    }

    /// Errors when the rules hide `subject`.
    pub(crate) fn permit(&self, subject: &Subject<'_>) -> Result<(), ToolError> {
        allow_if(self.permits(subject), || excluded(subject.name))
    }

    /// Errors when a rule denies `subject`. For what a visible container already uses: the operator
    /// need not have allowed each of its volumes by name.
    pub(crate) fn permit_use(&self, subject: &Subject<'_>) -> Result<(), ToolError> {
        allow_if(!self.rules.deny(subject), || excluded(subject.name))
    }

    /// The error of a call that would touch `name`, which the rules hide.
    pub(crate) fn refusal(&self, name: &str) -> ToolError {
        forbidden(excluded(name))
    }

    /// Whether there are rules.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.are_none()
    }

    /// Whether there are rules about images.
    pub(crate) fn has_image_rules(&self) -> bool {
        self.rules.know_images()
    }

    /// Whether an object with these labels may be changed.
    pub(crate) fn may_change(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.settings.only_created || labels.contains_key(CREATED)
    }

    /// Errors when only this server's own objects may be changed, and this is not one of them.
    pub(crate) fn permit_change(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        allow_if(self.may_change(labels), || {
            format!(
                "`{name}` was not created by this server, which may change only what it created \
                 (--only-created)."
            )
        })
    }

    /// Errors when a container must not write to a volume with these labels: its data would be
    /// changed.
    pub(crate) fn permit_write(
        &self,
        volume: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        let flag = match (self.settings.only_created, self.settings.no_destructive) {
            _ if labels.contains_key(CREATED) => return Ok(()),
            (true, _) => "--only-created",
            (_, true) => "--no-destructive",
            _ => return Ok(()),
        };
        Err(forbidden(format!(
            "The volume `{volume}` was not created by this server, so a container may only read it \
             ({flag}): mount it with `:ro`."
        )))
    }

    /// Whether only this server's own objects may be changed.
    pub(crate) fn is_only_created(&self) -> bool {
        self.settings.only_created
    }

    /// Errors when a container would reach the host without an exception of the policy; names the
    /// first option that is not allowed.
    pub(crate) fn permit_create(&self, request: &PrivilegeRequest<'_>) -> Result<(), ToolError> {
        self.settings.create.check(request)
    }

    /// Errors when commands in containers are not allowed.
    pub(crate) fn permit_exec(&self) -> Result<(), ToolError> {
        allow_if(self.settings.exec, || {
            "Commands in containers are disabled. The operator of this server can allow them with \
             --allow-exec."
                .to_owned()
        })
    }

    /// Errors when calls that may lose data are not allowed.
    pub(crate) fn permit_destructive(&self) -> Result<(), ToolError> {
        allow_if(!self.settings.no_destructive, || {
            "This server was started with --no-destructive: it may not stop, remove or overwrite \
             anything."
                .to_owned()
        })
    }

    /// The directory at `path`, if builds and compose projects may be read from it.
    /// Errors when it is outside of the allowed directories, or does not exist.
    pub(crate) fn directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        let roots = &self.settings.directories;
        let outside = || {
            forbidden(match roots.len() {
                0 => {
                    "No directory may be read. The operator of this server can allow some with \
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
        // Checked before it is resolved, so that an error does not reveal what exists outside.
        if !roots.iter().any(|root| asked.starts_with(root)) {
            return Err(outside());
        }
        let real = asked.canonicalize();
        let real = real.map_err(|_| ToolError::not_found("There is no such directory."))?;
        // Checked again after it is resolved: a symbolic link may lead outside.
        let mut real_roots = roots.iter().filter_map(|root| root.canonicalize().ok());
        match real_roots.any(|root| real.starts_with(root)) {
            true => Ok(real),
            false => Err(outside()),
        }
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
        let policy = Policy::new(PolicyFile {
            directories: vec![inside],
            ..PolicyFile::default()
        });
        let policy = policy.unwrap();
        assert_eq!(policy.directory(text).unwrap(), dir);
        for outside in ["/", "/etc", "tmp", &format!("{text}/../etc"), ""] {
            assert!(policy.directory(outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn exec_is_off_and_destructive_calls_are_on_by_default() {
        let policy = Policy::default();
        assert!(policy.permit_exec().is_err() && policy.permit_destructive().is_ok());
    }
}
