//! The key that signs session ids and request states, which clients keep.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context as _;
use mcp_core::server::ReplicaId;
use mcp_core::sign::Signer;

use crate::state::{create_private, state_folder};

/// A key. Has no `Debug`.
pub struct Key([u8; 32]);

impl Key {
    /// Derives the key from `secret` if it is not blank. Else returns the key of this user and server,
    /// which is created at the first start, so that sessions survive a restart. If no file can hold it,
    /// returns a new key.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn load(server: &str, secret: Option<&str>) -> anyhow::Result<Self> {
        Self::lasting(server, secret).or_else(|error| {
            tracing::debug!(%error, "cannot store the session key: sessions end with this process");
            Self::random()
        })
    }

    /// Like [`Key::load`], but never returns a key that ends with this process: for what is kept.
    ///
    /// # Errors
    /// If no file can hold it.
    pub fn lasting(server: &str, secret: Option<&str>) -> anyhow::Result<Self> {
        if let Some(secret) = secret.map(str::trim).filter(|secret| !secret.is_empty()) {
            return Ok(Self(hmac_sha256::Hash::hash(secret.as_bytes())));
        }
        let folder = state_folder();
        let folder = folder.context("no folder for a key: set HOME or XDG_STATE_HOME")?;
        let path = folder.join(server).join("session.key");
        load_or_create(&path).with_context(|| path.display().to_string())
    }

    /// Returns a key that only this process knows.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn random() -> anyhow::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("no random bytes for a key")?;
        Ok(Self(key))
    }

    /// Returns a key for another purpose, from which this one cannot be told.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut hmac = hmac_sha256::HMAC::new(self.0);
        hmac.update(b"derived key\0");
        hmac.update(purpose.as_bytes());
        hmac.finalize()
    }

    /// Returns a text by which replicas see whether they have the same key.
    pub fn fingerprint(&self) -> String {
        let [a, b, c, d, ..] = self.derive("fingerprint");
        format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns a signer that signs and verifies with this key.
    pub fn signer(&self) -> Signer {
        Signer::new(self.0)
    }
}

/// Returns 128 bits that cannot be guessed.
pub(crate) fn random() -> Option<u128> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(u128::from_ne_bytes(bits))
}

/// Returns the id of this process, which is drawn at its first use.
pub fn process_id() -> ReplicaId {
    static ID: OnceLock<ReplicaId> = OnceLock::new();
    *ID.get_or_init(|| {
        let mut bits = [0; 4];
        // Without randomness no client gets anything that begins with it.
        let _ = getrandom::fill(&mut bits);
        ReplicaId::new(u32::from_ne_bytes(bits))
    })
}

/// Returns a handle for a client: the id of this process, and 96 bits that cannot be guessed.
pub(crate) fn handle() -> Option<u128> {
    Some(process_id().handle(random()?))
}

fn load_or_create(path: &Path) -> anyhow::Result<Key> {
    // Of two servers that start together, one creates the file and the other reads it.
    if let Ok(mut file) = create_private(path) {
        let key = Key::random()?;
        file.write_all(&key.0)?;
        return Ok(key);
    }
    let mut key = [0; 32];
    std::fs::File::open(path)?
        .read_exact(&mut key)
        .context("the key file is truncated")?;
    Ok(Key(key))
}
