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

use mcp_core::error::Error;
use parking_lot::Mutex;

use crate::clock::unix_time;
use crate::tokens::{Credential, Digest, digest};
use keys::{IssuerKeys, KeyId};
use metadata::Metadata;
pub(crate) use metadata::PATH as METADATA_PATH;
pub(crate) use options::OauthOptions;
use token::{Rules, Unverified};

/// The largest token in bytes; a token with the groups of its owner has a few thousand.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Verified tokens that are remembered; each has a few hundred bytes.
const MAX_REMEMBERED: usize = 10_000;

/// Checks access tokens. Has no `Debug`.
pub(crate) struct ResourceServer {
    issuers: Vec<IssuerKeys>,
    rules: Rules,
    /// Scopes that each token needs.
    scopes: Vec<String>,
    metadata: Metadata,
    /// The tokens that were verified, by their SHA-256, with the keys that have signed them.
    verified: Mutex<HashMap<Digest, (KeyId, Arc<Credential>)>>,
}

impl ResourceServer {
    /// Checks a token. Returns its credential.
    ///
    /// # Errors
    /// `Unauthorized`, whatever is wrong with it; `InsufficientScope`.
    pub(crate) async fn credential(&self, token: &[u8]) -> Result<Arc<Credential>, Error> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Error::Unauthorized);
        }
        let digest = digest(token);
        let known = self.verified.lock().get(&digest).cloned();
        let credential = match known.filter(|(_, known)| known.is_valid()) {
            Some((_, credential)) => credential,
            None => {
                let verified = self.verify(token).await.map_err(|why| {
                    tracing::debug!(why = format!("{why:#}"), "refused an access token");
                    Error::Unauthorized
                })?;
                self.remember(digest, verified)
            }
        };
        let claims = &credential.principal.claims;
        let has = |scope: &&String| {
            let mut scopes = claims
                .iter()
                .filter_map(|claim| claim.strip_prefix("scope:"));
            scopes.any(|found| found == **scope)
        };
        match self.scopes.iter().all(|scope| has(&scope)) {
            true => Ok(credential),
            false => Err(Error::InsufficientScope(self.scopes.join(" "))),
        }
    }

    async fn verify(&self, token: &[u8]) -> anyhow::Result<(KeyId, Credential)> {
        let unverified = Unverified::read(token, &self.rules)?;
        let position = self
            .issuers
            .iter()
            .position(|issuer| issuer.name == unverified.issuer);
        let position = position.ok_or_else(|| anyhow::anyhow!("the issuer is not configured"))?;
        let issuer = &self.issuers[position];
        let (key, found) = issuer
            .key(unverified.key.as_deref(), unverified.algorithm)
            .await?;
        let credential = unverified.verify(&found, &self.rules)?;
        anyhow::ensure!(credential.is_valid(), "it has expired");
        Ok(((position, key), credential))
    }

    /// Remembers a verified token, so that its streams end with it and its next request is cheap.
    fn remember(&self, digest: Digest, (key, credential): (KeyId, Credential)) -> Arc<Credential> {
        let credential = Arc::new(credential);
        if let Some(end) = credential.expires() {
            let left = Duration::from_secs(end.saturating_sub(unix_time().as_secs()));
            let revoked = credential.revoked.clone();
            tokio::spawn(async move {
                if tokio::time::timeout(left, revoked.cancelled())
                    .await
                    .is_err()
                {
                    revoked.cancel();
                }
            });
        }
        let mut verified = self.verified.lock();
        if verified.len() >= MAX_REMEMBERED {
            verified.retain(|_, (_, credential)| credential.is_valid());
        }
        if verified.len() >= MAX_REMEMBERED {
            verified.clear();
        }
        let (_, credential) = verified
            .entry(digest)
            .insert_entry((key, credential))
            .get()
            .clone();
        credential
    }

    /// Fetches the keys at the start and then every 15 minutes. Tokens of a key that is gone are refused, and
    /// their streams end.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            for issuer in &self.issuers {
                issuer.refresh().await;
            }
            self.forget_gone();
            tokio::time::sleep(keys::REFRESH_INTERVAL).await;
        }
    }

    fn forget_gone(&self) {
        self.verified
            .lock()
            .retain(|_, ((issuer, key), credential)| {
                let is_known = self.issuers[*issuer].has(key);
                if !is_known {
                    credential.revoked.cancel();
                }
                is_known && credential.is_valid()
            });
    }

    /// The metadata of this server for clients (RFC 9728), as JSON.
    pub(crate) fn metadata(&self) -> &str {
        &self.metadata.json
    }

    /// True if this path has the metadata.
    pub(crate) fn is_metadata_path(&self, path: &str) -> bool {
        path == METADATA_PATH || path == self.metadata.path
    }

    /// The value of `WWW-Authenticate` for an answer to a request that is refused with `error`.
    pub(crate) fn challenge(&self, error: &Error) -> Option<http::HeaderValue> {
        match error {
            Error::Unauthorized => Some(self.metadata.unauthorized.clone()),
            Error::InsufficientScope(_) => Some(self.metadata.insufficient.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
