//! Bearer tokens, each with the name of its owner: one in each line of a token file, `NAME sha256:HEX [role=ROLE]
//! [expires=TIME]`, `NAME TOKEN …`, or a token alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use mcp_core::clock::unix_time;
use mcp_core::server::Principal;
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use crate::Secret;
use crate::followed_files::{FollowedFiles, READ_INTERVAL};

/// The valid tokens. Has no `Debug`.
#[derive(Default)]
pub struct Tokens {
    /// By their SHA-256, which clients cannot choose: the time of a look-up reveals nothing about the tokens.
    by_digest: RwLock<HashMap<Digest, Arc<Credential>>>,
    /// False where no token was ever configured. The last token may be revoked, and then none is valid.
    are_required: AtomicBool,
}

impl Tokens {
    /// Parses one token, or one per line: `NAME TOKEN [role=ROLE] [expires=TIME]`, where `sha256:HEX` may stand
    /// for the token, or a token alone. Blank lines and lines that start with `#` are ignored.
    ///
    /// # Errors
    /// If a line has another form, or a name or a token is repeated. Contains the number of the line, not its
    /// text.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let by_digest = credentials(text)?;
        Ok(Self {
            are_required: AtomicBool::new(!by_digest.is_empty()),
            by_digest: RwLock::new(by_digest),
        })
    }

    /// Returns true if no token is required.
    pub fn is_empty(&self) -> bool {
        !self.are_required.load(Ordering::Relaxed)
    }

    /// Requires a token, even if none is valid.
    pub(crate) fn require(&self) {
        self.are_required.store(true, Ordering::Relaxed);
    }

    pub(crate) fn owners(&self) -> Vec<Arc<Principal>> {
        let tokens = self.by_digest.read();
        let owners = tokens.values().map(|token| Arc::clone(&token.principal));
        owners.collect()
    }

    /// Returns the credential that a token is, if it is valid.
    pub(crate) fn credential(&self, given: &[u8]) -> Option<Arc<Credential>> {
        // Else the access token of an issuer, which is long, would be hashed in vain.
        if self.is_empty() {
            return None;
        }
        let credential = self.by_digest.read().get(&digest(given)).cloned();
        credential.filter(|credential| credential.is_valid())
    }

    /// Replaces the tokens by those of `text`. Tokens that are in both stay, with their streams.
    ///
    /// # Errors
    /// As [`Tokens::parse`], and if `text` is blank or its last line has no end, as an incomplete file is. The tokens
    /// then stay unchanged.
    pub(crate) fn replace(&self, text: &str) -> anyhow::Result<()> {
        ensure!(!text.trim().is_empty(), "it is empty");
        let mut new = credentials(text)?;
        let mut tokens = self.by_digest.write();
        // Cut off after its name, a line would make this name a token; after its token, it would have no role and no
        // end. A token alone often comes without an end of line, from `printf` or a secret of Kubernetes.
        let last = text.rsplit('\n').next().unwrap_or_default();
        if let Some(last) = Line::parse(last)? {
            let known = tokens.get(&last.digest);
            let is_known = known.is_some_and(|known| known.is_same(&last.credential()));
            ensure!(
                is_known || is_token_alone(&tokens) && is_token_alone(&new),
                "its last line is new and may be incomplete: it needs a line break at its end"
            );
        }
        for (digest, old) in tokens.drain() {
            match new.get_mut(&digest) {
                Some(new) if new.is_same(&old) => *new = old,
                _ => old.revoked.cancel(),
            }
        }
        *tokens = new;
        Ok(())
    }

    /// Ends the streams of expired tokens.
    fn expire(&self) {
        for credential in self.by_digest.read().values() {
            credential.is_valid();
        }
    }

    /// Follows the token file; `text` is its current content. Within 2 s a removed or expired token is refused
    /// and its streams end, and a new one is accepted. While the file is unusable, the tokens stay unchanged.
    pub(crate) async fn follow(self: Arc<Self>, secret: Arc<Secret>, text: String) {
        // With its white space: an end without a line break may be that of an incomplete file.
        let read = move || secret.text().map_err(|error| error.to_string());
        let file = FollowedFiles::new(Ok(text), read);
        let end_expired = async {
            loop {
                tokio::time::sleep(READ_INTERVAL).await;
                self.expire();
            }
        };
        let sentences = [
            "the token file has changed and was applied",
            "the token file is unusable; the last tokens stay valid",
        ];
        let apply_changes = file.follow(sentences, |text| self.replace(&text));
        tokio::join!(end_expired, apply_changes);
    }
}

/// Returns true for one token without a name.
fn is_token_alone(tokens: &HashMap<Digest, Arc<Credential>>) -> bool {
    tokens.len() == 1 && tokens.values().all(|token| !token.principal.is_named)
}

fn credentials(text: &str) -> anyhow::Result<HashMap<Digest, Arc<Credential>>> {
    let lines = parse(text)?.into_iter();
    let credentials = lines.map(|(_, line)| (line.digest, Arc::new(line.credential())));
    Ok(credentials.collect())
}

pub(crate) struct Credential {
    pub(crate) principal: Arc<Principal>,
    /// The time at which it ends, in seconds since 1970.
    expires: Option<u64>,
    /// Cancelled when it is not valid any more.
    pub(crate) revoked: Arc<CancellationToken>,
}

impl Credential {
    pub(crate) fn new(principal: Arc<Principal>, expires: Option<u64>) -> Self {
        Self {
            principal,
            expires,
            revoked: Arc::default(),
        }
    }

    /// Returns true until it is revoked or has expired. Ends its streams when it has expired.
    pub(crate) fn is_valid(&self) -> bool {
        let has_expired = || {
            self.expires
                .is_some_and(|expires| unix_time().as_secs() >= expires)
        };
        if has_expired() {
            self.revoked.cancel();
        }
        !self.revoked.is_cancelled()
    }

    /// The time at which it ends, in seconds since 1970.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// Returns true if both have the same owner and the same end.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.principal == other.principal && self.expires == other.expires
    }
}

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

#[cfg(test)]
mod tests;
