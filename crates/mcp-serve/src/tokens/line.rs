//! One line of a token file: `NAME sha256:HEX [role=ROLE] [expires=TIME]`, `NAME TOKEN …`, or a token alone.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use mcp_core::server::Principal;

use super::credential::Credential;

/// The owner of a token without a name.
const DEFAULT_OWNER: &str = "client";

/// Begins the hash of a token in the place of the token.
const HASH: &str = "sha256:";

/// Characters of a token, so that it cannot be guessed, and so that the rest of a damaged line is refused.
const MIN_TOKEN_CHARS: usize = 16;

/// The SHA-256 of a token.
pub(crate) type Digest = [u8; 32];

/// One token of the file.
#[derive(Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) is_named: bool,
    pub(crate) digest: Digest,
    /// False if the file has the token itself.
    pub(crate) is_hashed: bool,
    pub(crate) role: Option<String>,
    pub(crate) expires: Option<Timestamp>,
}

/// Returns the SHA-256 of a token. By `ring`, which uses the instructions of the processor for it: each request
/// has a token.
pub(crate) fn digest(token: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, token).as_ref());
    digest
}

/// Parses the lines of a file, each with its number, counted from 1. Blank lines and comments are left out.
///
/// # Errors
/// Name the line and never its token.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<(usize, Line)>> {
    let mut lines: Vec<(usize, Line)> = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let at = at + 1;
        let place = || format!("line {at} of the tokens");
        let Some(line) = Line::parse(text).with_context(place)? else {
            continue;
        };
        let others = || lines.iter().map(|(_, other)| other);
        ensure!(
            others().all(|other| other.name != line.name),
            "line {at} of the tokens repeats the name {:?}",
            line.name
        );
        ensure!(
            others().all(|other| other.digest != line.digest),
            "line {at} of the tokens repeats the token of another name"
        );
        lines.push((at, line));
    }
    Ok(lines)
}

impl Line {
    /// Parses a line; `None` for a blank one and for a comment.
    fn parse(text: &str) -> anyhow::Result<Option<Self>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, token, fields) = match words.as_slice() {
            [] => return Ok(None),
            [first, ..] if first.starts_with('#') => return Ok(None),
            [token] => (None, *token, &[][..]),
            [name, token, fields @ ..] => (Some(*name), *token, fields),
        };
        ensure!(
            name.is_none_or(|name| !Principal::is_claim(name)),
            "has a reserved name: role:, sub:, group: and scope: begin facts about a client"
        );
        let mut line = Self {
            name: name.unwrap_or(DEFAULT_OWNER).to_owned(),
            is_named: name.is_some(),
            digest: digest(token.as_bytes()),
            is_hashed: false,
            role: None,
            expires: None,
        };
        if let Some(hex) = token.strip_prefix(HASH) {
            ensure!(name.is_some(), "has a hash without a name");
            line.digest = from_hex(hex).context("has a hash that is not 64 hexadecimal digits")?;
            line.is_hashed = true;
        } else {
            ensure!(
                token.bytes().all(|byte| byte.is_ascii_graphic()),
                "has a token with a character that is no printable ASCII"
            );
            ensure!(
                token.len() >= MIN_TOKEN_CHARS,
                "has a token of fewer than {MIN_TOKEN_CHARS} characters: `openssl rand -hex 24` prints a good one"
            );
        }
        ensure!(
            !line.name.chars().any(char::is_control),
            "has a control character in its name"
        );
        for field in fields {
            match field.split_once('=') {
                Some(("role", role)) if !role.is_empty() && line.role.is_none() => {
                    line.role = Some(role.to_owned());
                }
                Some(("expires", time)) if line.expires.is_none() => {
                    let time = time.parse().ok();
                    let time =
                        time.context("`expires` must be a time such as 2027-01-31T12:00:00Z")?;
                    line.expires = Some(time);
                }
                _ => bail!("is not NAME TOKEN [role=ROLE] [expires=TIME]"),
            }
        }
        Ok(Some(line))
    }

    /// The credential that the token is.
    pub(super) fn credential(&self) -> Credential {
        let role = self.role.as_ref().map(|role| format!("role:{role}").into());
        let principal = Principal {
            is_named: self.is_named,
            claims: role.into_iter().collect(),
            ..Principal::new(&*self.name)
        };
        let expires = self
            .expires
            .map(|time| time.as_second().try_into().unwrap_or_default());
        Credential::new(Arc::new(principal), expires)
    }
}

/// The line without the token itself.
impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {HASH}", self.name)?;
        for byte in self.digest {
            write!(f, "{byte:02x}")?;
        }
        if let Some(role) = &self.role {
            write!(f, " role={role}")?;
        }
        if let Some(expires) = self.expires {
            write!(f, " expires={expires}")?;
        }
        Ok(())
    }
}

fn from_hex(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    let is_hex =
        text.len() == 2 * digest.len() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}
