//! The policy file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::create::Exceptions;

/// A policy as JSON. Every member may be missing; one that is unknown is an error, since it may be
/// a misspelt restriction.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PolicyFile {
    /// As `--allow`.
    pub(super) allow: Vec<String>,
    /// As `--deny`.
    pub(super) deny: Vec<String>,
    /// As `--only-created`.
    pub(super) only_created: bool,
    /// As `--no-destructive`.
    pub(super) no_destructive: bool,
    /// As `--allow-exec`.
    pub(super) exec: bool,
    /// What containers may be created with.
    pub(super) create: Exceptions,
    /// As `--project-dir`.
    pub(super) directories: Vec<PathBuf>,
}

impl PolicyFile {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }
}
