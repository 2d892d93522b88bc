//! Bearer tokens, each with the name of its owner.

mod credential;
mod line;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use parking_lot::RwLock;

use crate::Secret;
use crate::followed_files::{FollowedFiles, READ_INTERVAL};
pub(crate) use credential::Credential;
pub(crate) use line::{Digest, Line, digest, parse};

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
    /// As [`Tokens::parse`], and if `text` is blank, as an incomplete file is. The tokens then stay unchanged.
    pub(crate) fn replace(&self, text: &str) -> anyhow::Result<()> {
        ensure!(!text.trim().is_empty(), "it is empty");
        let mut new = credentials(text)?;
        let mut tokens = self.by_digest.write();
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
        let read = move || secret.get().map(Option::unwrap_or_default);
        let mut file =
            FollowedFiles::new(Ok(text), move || read().map_err(|error| error.to_string()));
        let end_expired = async {
            loop {
                tokio::time::sleep(READ_INTERVAL).await;
                self.expire();
            }
        };
        let apply_changes = async {
            loop {
                let text = file.changed().await;
                let replaced = text.and_then(|text| {
                    let replaced = self.replace(&text);
                    replaced.map_err(|error| format!("{error:#}"))
                });
                match replaced {
                    Ok(()) => tracing::info!("the token file has changed and was applied"),
                    Err(error) => tracing::warn!(
                        error,
                        "the token file is unusable; the last tokens stay valid"
                    ),
                }
            }
        };
        tokio::join!(end_expired, apply_changes);
    }
}

fn credentials(text: &str) -> anyhow::Result<HashMap<Digest, Arc<Credential>>> {
    let lines = parse(text)?.into_iter();
    let credentials = lines.map(|(_, line)| (line.digest, Arc::new(line.credential())));
    Ok(credentials.collect())
}

#[cfg(test)]
mod tests;
