//! Changes of the token file by a command, while servers read it.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;

use crate::Secret;
use crate::state::{open_for_lock, replace_private};
use crate::tokens::{Line, digest, parse};

/// Begins every token, so that people and scanners of secrets recognise one.
const PREFIX: &str = "mcp_";

pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The tokens, in the order of the file.
    pub(crate) fn lines(&self) -> anyhow::Result<Vec<Line>> {
        let lines = parse(&self.read()?)?;
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// Adds a token with this name and returns it. Only its hash is stored. Creates the file if there is none.
    pub(crate) fn add(
        &self,
        name: &str,
        role: Option<String>,
        expires: Option<Timestamp>,
    ) -> anyhow::Result<String> {
        let token = random_token()?;
        self.change(|text| {
            let lines = parse(text)?;
            let is_taken = lines.iter().any(|(_, line)| line.name == name);
            ensure!(!is_taken, "there is a token with the name {name:?}; revoke it first");
            let line = Line {
                name: name.to_owned(),
                is_named: true,
                digest: digest(token.as_bytes()),
                is_hashed: true,
                role,
                expires,
            };
            // The line is read as it was meant: blanks at an end would make another name of it.
            let is_readable = parse(&line.to_string()).is_ok_and(|lines| match &lines[..] {
                [(_, read)] => (&read.name, &read.role) == (&line.name, &line.role),
                _ => false,
            });
            ensure!(
                is_readable,
                "a name and a role are one word; a name begins neither with # nor with role:, sub:, group: or \
                 scope:"
            );
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Ok(format!("{text}{end}{line}\n"))
        })?;
        Ok(token)
    }

    /// Removes the token with this name. A comment in its place says when.
    pub(crate) fn revoke(&self, name: &str, now: Timestamp) -> anyhow::Result<()> {
        self.change(|text| {
            let lines = parse(text)?;
            let Some((at, _)) = lines.iter().find(|(_, line)| line.name == name) else {
                bail!("there is no token with the name {name:?}");
            };
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            // Also, a file without any text would be taken for an incomplete one.
            lines[at - 1] = format!("# {name} was revoked at {now:.0}");
            Ok(lines.join("\n") + "\n")
        })
    }

    fn read(&self) -> anyhow::Result<String> {
        let secret = Secret::new(None, Some(self.0.clone()));
        let text = secret.text();
        text.with_context(|| format!("cannot read {}", self.0.display()))
    }

    /// Replaces the text of the file as one step: a server reads the old text or the new one. Other commands
    /// wait.
    fn change(&self, change: impl FnOnce(&str) -> anyhow::Result<String>) -> anyhow::Result<()> {
        // The file that a link names is replaced, not the link.
        let path = match self.0.canonicalize() {
            Ok(path) => path,
            Err(_) => std::path::absolute(&self.0)?,
        };
        let place = || format!("cannot write {}", path.display());
        // A device or a pipe would be replaced by a file.
        ensure!(
            path.is_file() || !path.exists(),
            "{} is not a file",
            path.display()
        );
        let folder = path.parent().with_context(place)?;
        // A lock of the file would be one of the file that is replaced.
        let lock = open_for_lock(folder).with_context(place)?;
        lock.lock().with_context(place)?;
        let text = if path.exists() {
            self.read()?
        } else {
            String::new()
        };
        let new = change(&text)?;
        replace_private(&path, new.as_bytes()).with_context(place)?;
        lock.sync_all().with_context(place)
    }
}

/// Returns 256 random bits as text.
fn random_token() -> anyhow::Result<String> {
    use base64::Engine as _;
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).context("no random bytes for a token")?;
    let text = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bits);
    Ok(format!("{PREFIX}{text}"))
}

#[cfg(test)]
mod tests;
