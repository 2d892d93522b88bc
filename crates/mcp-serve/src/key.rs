//! The key that signs session ids and request states, which clients keep.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context as _;
use mcp_core::sign::Signer;

use crate::state::{open_for_lock, replace_private, state_folder};

/// A key. Has no `Debug`.
pub struct Key {
    bytes: [u8; KEY_BYTES],
    /// False for a key that ends with this process.
    is_lasting: bool,
}

impl Key {
    /// Derives the key from `secret` if it is not blank. Else returns the key of this user and server,
    /// which is created at the first start, so that sessions survive a restart. If no file can hold it,
    /// returns a new key.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn load(server: &str, secret: Option<&str>) -> anyhow::Result<Self> {
        Self::lasting(server, secret).or_else(|error| {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot store the session key: sessions end with this process"
            );
            Self::random()
        })
    }

    /// Like [`Key::load`], but never returns a key that ends with this process: for what is kept.
    ///
    /// # Errors
    /// If no file can hold it.
    pub fn lasting(server: &str, secret: Option<&str>) -> anyhow::Result<Self> {
        if let Some(secret) = secret.map(str::trim).filter(|secret| !secret.is_empty()) {
            return Ok(Self::kept(hmac_sha256::Hash::hash(secret.as_bytes())));
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
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).context("no random bytes for a key")?;
        let is_lasting = false;
        Ok(Self { bytes, is_lasting })
    }

    /// A key that is also that of later processes.
    fn kept(bytes: [u8; KEY_BYTES]) -> Self {
        let is_lasting = true;
        Self { bytes, is_lasting }
    }

    /// The file that keeps which sessions of `server` were ended, beside that of its key. `None` if sessions end with
    /// this process, or there is no folder for it.
    pub(crate) fn ended_sessions(&self, server: &str) -> Option<PathBuf> {
        let folder = state_folder().filter(|_| self.is_lasting)?;
        Some(folder.join(server).join("sessions.ended"))
    }

    /// Returns a key for another purpose, from which this one cannot be told.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut hmac = hmac_sha256::HMAC::new(self.bytes);
        hmac.update(b"derived key\0");
        hmac.update(purpose.as_bytes());
        hmac.finalize()
    }

    /// Returns a signer that signs and verifies with this key.
    pub fn signer(&self) -> Signer {
        Signer::new(self.bytes)
    }
}

/// Returns 128 bits that cannot be guessed.
pub(crate) fn random() -> Option<u128> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(u128::from_ne_bytes(bits))
}

/// Returns the id of this process, which is drawn at its first use.
pub fn process_id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| {
        let mut bits = [0; 4];
        // Without randomness no client gets anything that begins with it.
        let _ = getrandom::fill(&mut bits);
        u32::from_ne_bytes(bits)
    })
}

/// Returns a handle for a client: the id of this process, and 96 bits that cannot be guessed.
pub(crate) fn handle() -> Option<u128> {
    Some(u128::from(process_id()) << 96 | random()? >> 32)
}

/// Bytes of a key, and of its file.
const KEY_BYTES: usize = 32;

fn load_or_create(path: &Path) -> anyhow::Result<Key> {
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    let folder = path.parent().context("no folder")?;
    std::fs::create_dir_all(folder)?;
    // Of two servers that start together, one writes the file and the other waits and reads it.
    let lock = open_for_lock(folder)?;
    lock.lock()?;
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    if path.exists() {
        tracing::warn!(path = %path.display(), "the key file is damaged and is replaced: sessions end");
    }
    let Key { bytes, .. } = Key::random()?;
    replace_private(path, &bytes)?;
    Ok(Key::kept(bytes))
}

/// The key in the file; `None` if there is no file, or one of another size, as a crash or a full disk leaves.
fn read(path: &Path) -> std::io::Result<Option<Key>> {
    let mut bytes = Vec::new();
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok().map(Key::kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_is_whole_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server").join("session.key");
        let load = || load_or_create(&path).unwrap().bytes;
        let first = load();
        assert_eq!(load(), first);
        // As a crash between creation and writing left it, a full disk, and another program.
        for damaged in [&[][..], &first[..5], &[&first[..], b"\n"].concat()] {
            std::fs::write(&path, damaged).unwrap();
            let new = load();
            assert_ne!(new, first, "{damaged:?}");
            assert_eq!(load(), new);
            assert_eq!(std::fs::read(&path).unwrap(), new);
        }
        // Servers that start together, on a damaged file, have one key.
        std::fs::write(&path, b"").unwrap();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn({
                    let path = path.clone();
                    move || load_or_create(&path).unwrap().bytes
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), load());
        }
    }
}
