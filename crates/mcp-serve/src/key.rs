//! The key that signs what travels through clients: session ids and request states.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcp_core::sign::Signer;

use crate::Options;

/// A key. Has no `Debug`.
pub struct Key([u8; 32]);

impl Key {
    /// The configured key, else the one of this user and server, which is made at the first start so
    /// that sessions survive the next ones. Where there is no place for it, a new one.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn load(server: &str, options: &Options) -> anyhow::Result<Self> {
        if let Some(secret) = options
            .session_key
            .as_ref()
            .filter(|secret| !secret.trim().is_empty())
        {
            return Ok(Self(hmac_sha256::Hash::hash(secret.trim().as_bytes())));
        }
        let Some(path) = path(server) else {
            return Self::random();
        };
        kept(&path).or_else(|error| {
            tracing::debug!(%error, "the session key cannot be kept: sessions end with this process");
            Self::random()
        })
    }

    /// A key that only this process knows.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn random() -> anyhow::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("no randomness for a key")?;
        Ok(Self(key))
    }

    /// Signs and checks with this key.
    pub fn signer(&self) -> Signer {
        Signer::new(self.0)
    }
}

/// 128 bits that nobody can guess.
pub(crate) fn random() -> Option<u128> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(u128::from_ne_bytes(bits))
}

/// `$XDG_STATE_HOME/SERVER/session.key`.
fn path(server: &str) -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    let state = state.or_else(|| home().map(|home| home.join(".local/state")))?;
    Some(state.join(server).join("session.key"))
}

fn kept(path: &Path) -> anyhow::Result<Key> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Whoever creates the file first decides; the other one reads.
    if let Ok(mut file) = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        let key = Key::random()?;
        file.write_all(&key.0)?;
        return Ok(key);
    }
    let mut key = [0; 32];
    std::fs::File::open(path)?
        .read_exact(&mut key)
        .context("the key file is cut short")?;
    Ok(Key(key))
}
