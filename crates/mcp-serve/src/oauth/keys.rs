//! The keys of an issuer, fetched at the start, for a key that is not known, and now and then. Signatures are verified by
//! *ring*, which TLS has in the tree already.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use parking_lot::RwLock;
use ring::signature::{self as signatures, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::oauth::get_json;
use crate::tokens::{Digest, digest};

/// The time between two fetches without a reason.
const REFRESH_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// The time until the first repetition of a fetch that has failed. It doubles up to [`MIN_INTERVAL`].
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// The shortest time between two fetches because of a key that is not known: anybody can send tokens with
/// unknown keys.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// More than any issuer has.
const MAX_KEYS: usize = 100;

/// The SHA-256 of all that decides which tokens a key has signed: its name, its algorithm and itself.
pub(super) type KeyDigest = Digest;

/// The place of the keys.
pub(super) enum Source {
    /// The metadata of the issuer names the address.
    Discovery,
    Url(String),
    File(PathBuf),
}

pub(super) struct IssuerKeys {
    /// Exactly the `iss` of its tokens.
    pub(super) name: String,
    source: Source,
    keys: RwLock<Vec<Key>>,
    /// The end of the last fetch because of an unknown key. Locked while keys are fetched.
    last: Arc<Mutex<Option<Instant>>>,
}

struct Key {
    /// Its `kid`.
    name: Option<String>,
    digest: KeyDigest,
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
            last: Arc::default(),
        }
    }

    /// Returns the key with this name, or the only one if a token names none, for this algorithm, if it is not
    /// `wrong`. An unknown one is fetched, at most once a minute.
    pub(super) async fn key(
        self: &Arc<Self>,
        name: Option<&str>,
        algorithm: Algorithm,
        wrong: Option<&KeyDigest>,
    ) -> anyhow::Result<(KeyDigest, DecodingKey)> {
        let find = || {
            let found = self.find(name, algorithm);
            found.map(|found| found.filter(|(digest, _)| Some(digest) != wrong))
        };
        if let Some(key) = find()? {
            return Ok(key);
        }
        let mut last = Arc::clone(&self.last).lock_owned().await;
        // Another request may have waited for the same key.
        if let Some(key) = find()? {
            return Ok(key);
        }
        let is_due = last.is_none_or(|last| last.elapsed() >= MIN_INTERVAL);
        ensure!(
            is_due,
            "the key is not known, and the keys were fetched less than a minute ago"
        );
        // A task, which ends even if the client of this request goes: else anybody could use up the fetch of
        // each minute.
        let issuer = Arc::clone(self);
        let fetching = tokio::spawn(async move {
            issuer.replace().await;
            *last = Some(Instant::now());
        });
        fetching.await?;
        find()?.context("the key is not known")
    }

    pub(super) fn has(&self, digest: &KeyDigest) -> bool {
        self.keys.read().iter().any(|key| key.digest == *digest)
    }

    fn find(
        &self,
        name: Option<&str>,
        algorithm: Algorithm,
    ) -> anyhow::Result<Option<(KeyDigest, DecodingKey)>> {
        let keys = self.keys.read();
        let mut fitting = keys.iter().filter(|key| key.fits(name, algorithm));
        let first = fitting.next();
        ensure!(
            name.is_some() || fitting.next().is_none(),
            "the token names no key, and the issuer has several"
        );
        Ok(first.map(|key| (key.digest, key.key.clone())))
    }

    /// Fetches the keys now and every 15 minutes; while that fails, after seconds, at last every minute.
    pub(super) async fn follow(&self) {
        let mut retry = FIRST_RETRY;
        loop {
            let mut wait = REFRESH_INTERVAL;
            if self.refresh().await {
                retry = FIRST_RETRY;
            } else {
                wait = retry;
                retry = (2 * retry).min(MIN_INTERVAL);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Fetches the keys, after any fetch that goes on. Returns false if that fails: the last ones stay.
    pub(super) async fn refresh(&self) -> bool {
        let _one_at_a_time = self.last.lock().await;
        self.replace().await
    }

    async fn replace(&self) -> bool {
        let fetched = self.fetch().await;
        if let Err(error) = &fetched {
            let (issuer, error) = (&self.name, format!("{error:#}"));
            tracing::warn!(
                issuer,
                error,
                "cannot fetch the keys of the issuer; the last ones stay"
            );
        }
        fetched.map(|keys| *self.keys.write() = keys).is_ok()
    }

    async fn fetch(&self) -> anyhow::Result<Vec<Key>> {
        let set: KeySet = match &self.source {
            Source::Discovery => get_json(&self.discover().await?).await?,
            Source::Url(url) => get_json(url).await?,
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
            match get_json::<IssuerMetadata>(&url).await {
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
        // RFC 7638, 3.2.
        let members = ["kid", "alg", "kty", "crv", "x", "y", "n", "e"];
        let members = members.map(|name| value.get(name));
        let digest = digest(serde_json::to_string(&members).ok()?.as_bytes());
        let is_symmetric = value.get("kty").is_none_or(|kind| kind == "oct");
        let key: Jwk = serde_json::from_value(value).ok()?;
        let is_for_signatures = matches!(
            key.common.public_key_use,
            None | Some(PublicKeyUse::Signature)
        );
        if !is_for_signatures || is_symmetric {
            return None;
        }
        Some(Self {
            key: DecodingKey::from_jwk(&key).ok()?,
            name: key.common.key_id,
            digest,
            algorithm,
        })
    }

    fn fits(&self, name: Option<&str>, algorithm: Algorithm) -> bool {
        let of_algorithm = |only: &String| *only == format!("{algorithm:?}");
        name.is_none_or(|name| self.name.as_deref() == Some(name))
            && self.algorithm.as_ref().is_none_or(of_algorithm)
            && family(algorithm) == Some(self.key.family())
    }
}

static RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs *ring*, unless the program has installed another provider.
pub(super) fn install_ring() {
    // Installed before: nothing to do.
    let _ = RING.install_default();
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

/// The family of the keys for an algorithm; `None` for an algorithm that is not known here.
pub(super) fn family(algorithm: Algorithm) -> Option<AlgorithmFamily> {
    Some(match algorithm {
        Algorithm::RS256
        | Algorithm::RS384
        | Algorithm::RS512
        | Algorithm::PS256
        | Algorithm::PS384
        | Algorithm::PS512 => AlgorithmFamily::Rsa,
        Algorithm::ES256 | Algorithm::ES384 => AlgorithmFamily::Ec,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => return None,
    })
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    // A public key is never the secret of an HMAC.
    if family(*algorithm) != Some(key.family()) {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier(*algorithm, key.clone())))
}

struct RingVerifier(Algorithm, DecodingKey);

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let rsa = match self.0 {
            Algorithm::RS256 => Some(&signatures::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Some(&signatures::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Some(&signatures::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Some(&signatures::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Some(&signatures::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Some(&signatures::RSA_PSS_2048_8192_SHA512),
            _ => None,
        };
        let verified = match (rsa, self.1.kind()) {
            (Some(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (None, DecodingKeyKind::SecretOrDer(key)) => {
                let algorithm: &dyn signatures::VerificationAlgorithm = match self.0 {
                    Algorithm::ES256 => &signatures::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &signatures::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &signatures::ED25519,
                    _ => return Err(Error::new()),
                };
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}
