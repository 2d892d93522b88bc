//! The policy file.

use std::path::PathBuf;

use serde::Deserialize;

use super::create::CreateExceptions;

/// A policy as JSON; the members mean the same as the options. Every member is optional; an unknown
/// one is an error, since it may be a misspelt restriction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PolicyFile {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) only_created: bool,
    pub(crate) no_destructive: bool,
    /// As `--allow-exec`.
    pub(crate) exec: bool,
    /// Exceptions for new containers.
    pub(super) create: CreateExceptions,
    /// As `--project-dir`.
    pub(crate) directories: Vec<PathBuf>,
}

impl PolicyFile {
    /// Reads the file at `path`.
    /// Errors when it cannot be read or is not a valid policy.
    pub(crate) fn read(path: &str) -> anyhow::Result<Self> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }
}
