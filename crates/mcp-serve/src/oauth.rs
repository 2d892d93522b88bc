//! The server as an OAuth 2.1 resource server: admits access tokens of configured issuers (RFC 9068) and says
//! where clients get one (RFC 9728).
//!
//! Top to bottom: `options` are the flags. `metadata` is what clients read. `token` checks one token with the
//! `keys` of its issuer, which `fetch` gets, by `crypto`.

mod crypto;
mod fetch;
mod keys;
mod metadata;
mod options;
mod token;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use mcp_core::error::{Credentials, Error};
use parking_lot::Mutex;

use crate::tokens::{Credential, Digest, digest};
use keys::{IssuerKeys, KeyDigest};
use metadata::Metadata;
pub(crate) use metadata::PATH as METADATA_PATH;
pub(crate) use options::OauthOptions;
use token::{Audience, Rules, Unverified};

/// The largest token in bytes; a token with the groups of its owner has a few thousand.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Verified tokens that are remembered; each has a few hundred bytes.
const MAX_REMEMBERED: usize = 10_000;

/// Interval at which the streams of tokens end that have expired or whose key is gone.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Checks access tokens. Has no `Debug`.
pub(crate) struct ResourceServer {
    issuers: Vec<Arc<IssuerKeys>>,
    rules: Rules,
    metadata: Metadata,
    /// The tokens that were verified, by their SHA-256.
    verified: Mutex<HashMap<Digest, Verified>>,
}

/// A token that was verified.
#[derive(Clone)]
struct Verified {
    /// The position of its issuer, and the key that has signed it.
    key: (usize, KeyDigest),
    /// True if it has the scopes that each token needs.
    has_scopes: bool,
    audience: Audience,
    credential: Arc<Credential>,
}

impl ResourceServer {
    /// Checks a token for a request to the server, or to the view with this name. Returns its credential.
    ///
    /// # Errors
    /// `Unauthorized`, whatever is wrong with it; `InsufficientScope`.
    pub(crate) async fn credential_in(
        &self,
        token: &[u8],
        view: Option<&str>,
    ) -> Result<Arc<Credential>, Error> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Error::Unauthorized(Credentials::Invalid));
        }
        let digest = digest(token);
        let known = self.verified.lock().get(&digest).cloned();
        let verified = match known.filter(|known| known.credential.is_valid()) {
            Some(known) => Ok(known),
            None => {
                let verified = self.verify(token).await;
                verified.and_then(|new| self.remember(digest, new))
            }
        };
        let verified = verified.and_then(|known| {
            let is_for = known.audience.includes(view);
            is_for
                .then_some(known)
                .context("it is for another resource")
        });
        let verified = verified.map_err(|why| {
            tracing::debug!(why = format!("{why:#}"), "refused an access token");
            Error::Unauthorized(Credentials::Invalid)
        })?;
        match verified.has_scopes {
            true => Ok(verified.credential),
            false => Err(Error::InsufficientScope(self.rules.scopes.join(" "))),
        }
    }

    async fn verify(&self, token: &[u8]) -> anyhow::Result<Verified> {
        let unverified = Unverified::read(token, &self.rules)?;
        let position = self
            .issuers
            .iter()
            .position(|issuer| issuer.name == unverified.issuer);
        let position = position.ok_or_else(|| anyhow::anyhow!("the issuer is not configured"))?;
        let issuer = &self.issuers[position];
        let (name, algorithm) = (unverified.key.as_deref(), unverified.algorithm);
        let (mut digest, key) = issuer.key(name, algorithm, None).await?;
        let (credential, has_scopes, audience) = match unverified.verify(&key, &self.rules) {
            // The issuer may have a new key of the same name.
            Err(error) if token::has_wrong_signature(&error) => {
                let newer = issuer.key(name, algorithm, Some(&digest)).await;
                let (newer, key) = newer.map_err(|_| error)?;
                digest = newer;
                unverified.verify(&key, &self.rules)?
            }
            verified => verified?,
        };
        anyhow::ensure!(credential.is_valid(), "it has expired");
        Ok(Verified {
            key: (position, digest),
            has_scopes,
            audience,
            credential: Arc::new(credential),
        })
    }

    /// Remembers a verified token, so that its streams end with it and its next request is cheap. Requests that
    /// have verified it at the same time share one credential.
    fn remember(&self, digest: Digest, new: Verified) -> anyhow::Result<Verified> {
        let mut verified = self.verified.lock();
        // With the lock: a key that goes from now on takes this token along.
        anyhow::ensure!(self.has(&new), "its key is gone");
        match verified.get(&digest) {
            Some(known) if known.key == new.key && known.credential.is_valid() => {
                return Ok(known.clone());
            }
            Some(known) => known.credential.revoked.cancel(),
            None => make_room(&mut verified),
        }
        verified.insert(digest, new.clone());
        Ok(new)
    }

    fn has(&self, verified: &Verified) -> bool {
        let (issuer, key) = &verified.key;
        self.issuers[*issuer].has(key)
    }

    /// Follows the keys of the issuers. Tokens that end, or whose key is gone, are refused, and their streams
    /// end.
    pub(crate) async fn follow(self: Arc<Self>) {
        let sweep = async {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                self.sweep();
            }
        };
        let keys = join_all(self.issuers.iter().map(|issuer| issuer.follow()));
        tokio::join!(sweep, keys);
    }

    fn sweep(&self) {
        self.verified.lock().retain(|_, known| {
            if !self.has(known) {
                known.credential.revoked.cancel();
            }
            known.credential.is_valid()
        });
    }

    /// The host name by which clients call this server.
    pub(crate) fn host(&self) -> &str {
        &self.metadata.host
    }

    /// Scheme and authority by which clients call this server.
    pub(crate) fn origin(&self) -> &str {
        &self.metadata.origin
    }

    /// The metadata of this server for clients (RFC 9728), as JSON.
    pub(crate) fn metadata(&self) -> &str {
        &self.metadata.json
    }

    /// The metadata at this path, of the server or of a view. There may be no such view: it is not public which
    /// there are.
    pub(crate) fn metadata_at(&self, path: &str, has_views: bool) -> Option<String> {
        if self.is_metadata_path(path) {
            return Some(self.metadata().to_owned());
        }
        let (_, name) = path.rsplit_once('/').filter(|_| has_views)?;
        let view = self.metadata.of_view(name)?;
        (view.path == path).then_some(view.json)
    }

    /// True if this path has the metadata.
    pub(crate) fn is_metadata_path(&self, path: &str) -> bool {
        path == METADATA_PATH || path == self.metadata.path
    }

    /// The value of `WWW-Authenticate` for an answer to a request, of the server or of a view, that is refused with
    /// `error`. A request without a token is no error yet (RFC 6750, 3.1).
    pub(crate) fn challenge_in(
        &self,
        error: &Error,
        view: Option<&str>,
    ) -> Option<http::HeaderValue> {
        let of_view = view.and_then(|name| self.metadata.of_view(name));
        let metadata = of_view.as_ref().unwrap_or(&self.metadata);
        match error {
            Error::Unauthorized(Credentials::Invalid) => Some(metadata.invalid.clone()),
            Error::Unauthorized(_) => Some(metadata.unauthorized.clone()),
            Error::InsufficientScope(_) => Some(metadata.insufficient.clone()),
            _ => None,
        }
    }
}

/// Makes room for a token: if there are too many, by dropping the one that ends first: its streams end, and its
/// next request is verified again.
fn make_room(verified: &mut HashMap<Digest, Verified>) {
    if verified.len() < MAX_REMEMBERED {
        return;
    }
    verified.retain(|_, known| known.credential.is_valid());
    if verified.len() < MAX_REMEMBERED {
        return;
    }
    let end = |(_, known): &(&Digest, &Verified)| known.credential.expires();
    let first = verified.iter().min_by_key(end).map(|(digest, _)| *digest);
    if let Some(known) = first.and_then(|first| verified.remove(&first)) {
        known.credential.revoked.cancel();
    }
}

#[cfg(test)]
mod tests;
