//! The server as an OAuth 2.1 resource server: admits access tokens of configured issuers (RFC 9068) and says
//! where clients get one (RFC 9728).
//!
//! Top to bottom: `options` are the flags. `token` checks one token with the `keys` of its issuer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures_util::future::join_all;
use http::{HeaderValue, Uri};
use keys::{IssuerKeys, KeyDigest};
use mcp_client::Endpoint;
use mcp_core::error::{Credentials, Error};
use mcp_core::host::is_loopback;
pub(crate) use options::OauthOptions;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use token::{Audience, Rules, Unverified};

use crate::tokens::{Credential, Digest, digest};

mod keys;
mod options;
mod token;

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
            ensure!(known.audience.includes(view), "it is for another resource");
            Ok(known)
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
        let mut issuers = self.issuers.iter();
        let position = issuers.position(|issuer| issuer.name == unverified.issuer);
        let position = position.context("the issuer is not configured")?;
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
        ensure!(credential.is_valid(), "it has expired");
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
        ensure!(self.has(&new), "its key is gone");
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

    /// The metadata for clients (RFC 9728) at this path, of the server or of a view, as JSON. There may be no such
    /// view: it is not public which there are.
    pub(crate) fn metadata_at(&self, path: &str, has_views: bool) -> Option<String> {
        if path == PATH || path == self.metadata.path {
            return Some(self.metadata.json.clone());
        }
        let (_, name) = path.rsplit_once('/').filter(|_| has_views)?;
        let view = self.metadata.of_view(name)?;
        (view.path == path).then_some(view.json)
    }

    /// The value of `WWW-Authenticate` for an answer to a request, of the server or of a view, that is refused with
    /// `error`. A request without a token is no error yet (RFC 6750, 3.1).
    pub(crate) fn challenge_in(&self, error: &Error, view: Option<&str>) -> Option<HeaderValue> {
        let of_view = view.and_then(|name| self.metadata.of_view(name));
        let metadata = of_view.as_ref().unwrap_or(&self.metadata);
        let kind = match error {
            Error::Unauthorized(Credentials::Invalid) => "error=\"invalid_token\", ",
            Error::Unauthorized(_) => "",
            Error::InsufficientScope(_) => "error=\"insufficient_scope\", ",
            _ => return None,
        };
        HeaderValue::try_from(format!("Bearer {kind}{}", metadata.challenge)).ok()
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

/// The path of the metadata, before that of the resource.
const PATH: &str = "/.well-known/oauth-protected-resource";

pub(super) struct Metadata {
    resource: String,
    issuers: Vec<String>,
    scopes: Vec<String>,
    pub(super) json: String,
    /// [`PATH`] with the path of the resource.
    pub(super) path: String,
    /// Scheme and authority of the resource.
    pub(super) origin: String,
    /// The host name of the resource.
    pub(super) host: String,
    /// The end of `WWW-Authenticate` of an answer 401 or 403.
    challenge: String,
}

impl Metadata {
    pub(super) fn new(
        resource: &str,
        issuers: &[String],
        scopes: &[String],
    ) -> anyhow::Result<Self> {
        let uri = check_url(resource)?;
        let origin = match (uri.scheme_str(), uri.authority()) {
            (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
            _ => String::new(),
        };
        let path = format!("{PATH}{}", uri.path().trim_end_matches('/'));
        let mut document = json!({
            "resource": resource,
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        let mut challenge = format!("resource_metadata=\"{origin}{path}\"");
        if !scopes.is_empty() {
            document["scopes_supported"] = json!(scopes);
            challenge += &format!(", scope=\"{}\"", scopes.join(" "));
        }
        HeaderValue::from_str(&challenge).context("is not ASCII")?;
        Ok(Self {
            resource: resource.to_owned(),
            issuers: issuers.to_vec(),
            scopes: scopes.to_vec(),
            json: document.to_string(),
            path,
            origin,
            host: uri.host().unwrap_or_default().to_owned(),
            challenge,
        })
    }

    /// The documents of a view, which is a resource of its own; `None` for a name that no view has.
    pub(super) fn of_view(&self, name: &str) -> Option<Self> {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_legal) {
            return None;
        }
        let resource = view_resource(&self.resource, name);
        Self::new(&resource, &self.issuers, &self.scopes).ok()
    }
}

/// The URL of a view of this resource. That of the server may be its origin only, without the path `/mcp`.
pub(super) fn view_resource(resource: &str, name: &str) -> String {
    let base = resource.trim_end_matches('/');
    let has_path = base
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains('/'));
    let path = if has_path { "" } else { "/mcp" };
    format!("{base}{path}/{name}")
}

/// Checks that a URL is `https`, or `http` on this machine.
pub(super) fn check_url(url: &str) -> anyhow::Result<Uri> {
    let uri: Uri = url.parse().context("is not a URL")?;
    let host = uri.host().context("is not a URL with a host")?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_loopback(host) => {}
        _ => bail!("must be https, or http on this machine"),
    }
    ensure!(
        !url.contains(['#', '"', '\\', ' ']),
        "has a fragment or a quote"
    );
    Ok(uri)
}

pub(super) async fn get_json<T: DeserializeOwned>(url: &str) -> anyhow::Result<T> {
    check_url(url)?;
    let endpoint = Endpoint::new(url)?;
    let (status, body) = endpoint.get().await?;
    ensure!(
        status.is_success(),
        "{url} answered with HTTP {}",
        status.as_u16()
    );
    serde_json::from_slice(&body).context("the answer is not the JSON that was expected")
}

#[cfg(test)]
mod tests;
