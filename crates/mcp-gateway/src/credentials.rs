//! The tokens of the gateway for its backends: by OAuth, and sealed where they are kept.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use mcp_client::oauth::{OAuth, OAuthConfig, TokenStore};
use mcp_client::{Endpoint, Error};
use mcp_serve::Key;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::config::OAuthSettings;

/// Makes the source of tokens for a backend.
///
/// # Errors
/// If the secret cannot be read, or there is no place for the tokens.
pub(crate) fn oauth(settings: &OAuthSettings, server: Endpoint) -> Result<Arc<OAuth>, Error> {
    let secret = settings.client_secret.as_ref().map(|secret| {
        let unreadable = |error| Error::Invalid(format!("client_secret cannot be read: {error}"));
        secret.read().map_err(unreadable)
    });
    let backend = &settings.backend;
    let config = OAuthConfig {
        server,
        grant: settings.grant,
        client_id: settings.client_id.clone(),
        client_secret: secret.transpose()?,
        client_metadata: settings.client_metadata.clone(),
        scope: settings.scope.clone(),
        issuer: settings.issuer.clone(),
        tls: settings.tls.clone(),
        redirect_port: settings.redirect_port,
        how_to_login: format!("run `mcp-gateway login {backend}`"),
    };
    let store = TokenFile::new(backend).map_err(|error| Error::Invalid(error.to_string()))?;
    OAuth::new(config, Arc::new(store)).map(Arc::new)
}

/// The file with the tokens of one backend, which only this user can read, sealed with a key that is derived
/// from the session key. Has no `Debug`.
struct TokenFile {
    path: PathBuf,
    key: [u8; 32],
}

impl TokenFile {
    fn new(backend: &str) -> anyhow::Result<Self> {
        let folder = mcp_serve::state_folder();
        let folder = folder.ok_or_else(|| {
            anyhow::anyhow!("there is no folder for its tokens: set HOME or XDG_STATE_HOME")
        })?;
        let secret = std::env::var("MCP_SESSION_KEY").ok();
        let key = Key::load("mcp-gateway", secret.as_deref())?;
        Ok(Self {
            path: folder.join("mcp-gateway/oauth").join(backend),
            key: key.derive("tokens of backends"),
        })
    }

    fn cipher(&self) -> io::Result<LessSafeKey> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.key);
        key.map(LessSafeKey::new).map_err(|_| failed("no cipher"))
    }

    /// The name of the file, so that one file cannot take the place of another.
    fn name(&self) -> Aad<Vec<u8>> {
        let name = self.path.file_name().unwrap_or_default();
        Aad::from(name.as_encoded_bytes().to_vec())
    }
}

impl TokenStore for TokenFile {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        let mut sealed = match std::fs::read(&self.path) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let other = || failed("they are sealed with another session key");
        if sealed.len() < NONCE_LEN {
            return Err(other());
        }
        let mut text = sealed.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&sealed).map_err(|_| other())?;
        let opened = self.cipher()?;
        let opened = opened.open_in_place(nonce, self.name(), &mut text);
        let length = opened.map_err(|_| other())?.len();
        text.truncate(length);
        Ok(Some(text))
    }

    fn save(&self, tokens: &[u8]) -> io::Result<()> {
        let mut nonce = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut nonce);
        random.map_err(|_| failed("no randomness"))?;
        let mut sealed = tokens.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.cipher()?
            .seal_in_place_append_tag(unique, self.name(), &mut sealed)
            .map_err(|_| failed("cannot seal"))?;
        // A process that is killed leaves the old file.
        let name = format!("{}.new", std::process::id());
        let new = self.path.with_extension(name);
        let _ = std::fs::remove_file(&new);
        let mut file = mcp_serve::create_private(&new)?;
        file.write_all(&nonce)?;
        file.write_all(&sealed)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)
    }
}

fn failed(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn tokens_are_sealed_for_one_key_and_one_backend() {
        let name = format!("mcp-gateway-tokens-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let file = |name: &str, key| TokenFile {
            path: folder.join("oauth").join(name),
            key: [key; 32],
        };
        let (one, other) = (file("one", 1), file("other", 1));
        assert!(one.load().unwrap().is_none());
        for text in ["s3cret", "s3cret too"] {
            one.save(text.as_bytes()).unwrap();
            assert_eq!(one.load().unwrap().unwrap(), text.as_bytes());
        }
        let sealed = std::fs::read(&one.path).unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"s3cret"));
        let mode = std::fs::metadata(&one.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::copy(&one.path, &other.path).unwrap();
        assert!(other.load().is_err() && file("one", 2).load().is_err());
        for cut in [0, 5, NONCE_LEN, sealed.len() - 1] {
            std::fs::write(&one.path, &sealed[..cut]).unwrap();
            assert!(one.load().is_err(), "{cut}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
