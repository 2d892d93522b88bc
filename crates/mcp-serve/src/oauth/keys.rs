//! The keys of an issuer, fetched at the start, for a key that is not known, and now and then.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch;

/// The time between two fetches without a reason.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// The shortest time between two fetches because of a key that is not known: anybody can send tokens with
/// unknown keys.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// More than any issuer has.
const MAX_KEYS: usize = 100;

/// The position of the issuer, and the id of the key, or its text if it has none.
pub(super) type KeyId = (usize, String);

/// The place of the keys.
pub(super) enum Source {
    /// The metadata of the issuer names the address.
    Discovery,
    Url(String),
    File(PathBuf),
}

/// An issuer and its keys.
pub(super) struct IssuerKeys {
    /// Exactly the `iss` of its tokens.
    pub(super) name: String,
    source: Source,
    keys: RwLock<Vec<Key>>,
    /// The time of the last fetch because of an unknown key.
    last: Mutex<Option<Instant>>,
}

struct Key {
    id: String,
    has_id: bool,
    /// The only algorithm for which it may be used, if it says so.
    algorithm: Option<String>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

impl IssuerKeys {
    pub(super) fn new(name: String, source: Source) -> Self {
        Self {
            name,
            source,
            keys: RwLock::default(),
            last: Mutex::default(),
        }
    }

    /// Returns the key with this id, or the only one if a token names none. An unknown one is fetched, at most
    /// once a minute.
    pub(super) async fn key(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> anyhow::Result<(String, DecodingKey)> {
        if let Some(key) = self.find(id, algorithm)? {
            return Ok(key);
        }
        let mut last = self.last.lock().await;
        // Another request may have waited for the same key.
        if let Some(key) = self.find(id, algorithm)? {
            return Ok(key);
        }
        let is_due = last.is_none_or(|last| last.elapsed() >= MIN_INTERVAL);
        ensure!(
            is_due,
            "the key is not known, and the keys were fetched less than a minute ago"
        );
        *last = Some(Instant::now());
        self.refresh().await;
        drop(last);
        self.find(id, algorithm)?.context("the key is not known")
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.keys.read().iter().any(|key| key.id == id)
    }

    fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> anyhow::Result<Option<(String, DecodingKey)>> {
        let keys = self.keys.read();
        let key = match (id, &keys[..]) {
            (Some(id), keys) => keys.iter().find(|key| key.has_id && key.id == id),
            (None, []) => None,
            (None, [key]) => Some(key),
            (None, _) => bail!("the token names no key, and the issuer has several"),
        };
        let Some(key) = key else { return Ok(None) };
        let fits = key
            .algorithm
            .as_ref()
            .is_none_or(|only| *only == format!("{algorithm:?}"));
        ensure!(fits, "the key is for another algorithm");
        Ok(Some((key.id.clone(), key.key.clone())))
    }

    /// Fetches the keys. If that fails, the last ones stay.
    pub(super) async fn refresh(&self) {
        match self.fetch().await {
            Ok(keys) => *self.keys.write() = keys,
            Err(error) => {
                let (issuer, error) = (&self.name, format!("{error:#}"));
                tracing::warn!(
                    issuer,
                    error,
                    "cannot fetch the keys of the issuer; the last ones stay"
                );
            }
        }
    }

    async fn fetch(&self) -> anyhow::Result<Vec<Key>> {
        let set: KeySet = match &self.source {
            Source::Discovery => fetch::json(&self.discover().await?).await?,
            Source::Url(url) => fetch::json(url).await?,
            Source::File(path) => {
                let text = std::fs::read(path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                serde_json::from_slice(&text).context("the file is not a set of keys in JSON")?
            }
        };
        ensure!(
            set.keys.len() <= MAX_KEYS,
            "there are more than {MAX_KEYS} keys"
        );
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::read).collect();
        ensure!(!keys.is_empty(), "there is no key for signatures");
        Ok(keys)
    }

    /// The address of the keys in the metadata of the issuer (RFC 8414, then OpenID Connect Discovery).
    async fn discover(&self) -> anyhow::Result<String> {
        let issuer = self.name.trim_end_matches('/');
        let authority = issuer.find("://").map_or(0, |at| at + 3);
        let end = issuer[authority..]
            .find('/')
            .map_or(issuer.len(), |at| authority + at);
        let (origin, path) = issuer.split_at(end);
        let mut failure = None;
        for url in [
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{issuer}/.well-known/openid-configuration"),
        ] {
            match fetch::json::<IssuerMetadata>(&url).await {
                Ok(metadata) if metadata.issuer == self.name => return Ok(metadata.jwks_uri),
                Ok(metadata) => {
                    failure = Some(anyhow::anyhow!("{url} is that of {:?}", metadata.issuer));
                }
                Err(error) => failure = Some(error.context(url)),
            }
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("no metadata")))
    }
}

impl Key {
    /// Reads a key; `None` for one that is not for signatures, symmetric, or of an unknown kind.
    fn read(value: Value) -> Option<Self> {
        let algorithm = value.get("alg").and_then(Value::as_str).map(str::to_owned);
        let text = value.to_string();
        let key: Jwk = serde_json::from_value(value).ok()?;
        let is_for_signatures = matches!(
            key.common.public_key_use,
            None | Some(PublicKeyUse::Signature)
        );
        if !is_for_signatures || text.contains("\"kty\":\"oct\"") {
            return None;
        }
        Some(Self {
            key: DecodingKey::from_jwk(&key).ok()?,
            has_id: key.common.key_id.is_some(),
            id: key.common.key_id.unwrap_or(text),
            algorithm,
        })
    }
}
