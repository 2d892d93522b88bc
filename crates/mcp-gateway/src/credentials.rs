//! The tokens of the gateway for its backends: by OAuth, and sealed where they are kept.

use std::any::Any;
use std::fs::{OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use mcp_client::oauth::{GrantType, OAuth, OAuthConfig, TokenStore};
use mcp_client::{Endpoint, Error};
use mcp_serve::Key;
use parking_lot::Mutex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use upstream::text::hexadecimal;

use crate::config::OAuthSettings;

/// The source of tokens of one backend, which all its connections share: a token is renewed once for all of them.
#[derive(Default)]
pub(crate) struct SharedOAuth(Mutex<Option<(Option<String>, Arc<OAuth>)>>);

impl SharedOAuth {
    /// Returns the source of tokens: the same one until the client's secret changes.
    ///
    /// # Errors
    /// If the secret cannot be read, or there is no place for the tokens.
    pub(crate) fn get(
        &self,
        settings: &OAuthSettings,
        server: &Endpoint,
    ) -> Result<Arc<OAuth>, Error> {
        let secret = settings.client_secret.as_ref().map(|secret| {
            let unreadable =
                |error| Error::Invalid(format!("client_secret cannot be read: {error}"));
            secret.read().map_err(unreadable)
        });
        let secret = secret.transpose()?;
        let mut shared = self.0.lock();
        if let Some((before, oauth)) = &*shared
            && *before == secret
        {
            return Ok(Arc::clone(oauth));
        }
        let backend = &settings.backend;
        let config = OAuthConfig {
            server: server.clone(),
            grant: settings.grant,
            client_id: settings.client_id.clone(),
            client_secret: secret.clone(),
            client_metadata: settings.client_metadata.clone(),
            scope: settings.scope.clone(),
            issuer: settings.issuer.clone(),
            tls: settings.tls.clone(),
            redirect_port: settings.redirect_port,
            how_to_login: format!("run `mcp-gateway login {backend}`"),
        };
        // A client with credentials of its own asks for a new token after a restart.
        let store: Option<Arc<dyn TokenStore>> = match settings.grant {
            GrantType::ClientCredentials => None,
            GrantType::Login => {
                let unusable =
                    |error| Error::Invalid(format!("no place for its tokens: {error:#}"));
                Some(Arc::new(TokenFile::new(backend).map_err(unusable)?))
            }
        };
        let oauth = Arc::new(OAuth::new(config, store));
        *shared = Some((secret, Arc::clone(&oauth)));
        Ok(oauth)
    }
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
        let key = Key::lasting("mcp-gateway", secret.as_deref())?;
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
        // A process that is killed leaves the old file. The name is random, so that no two writers share it.
        let new = self.path.with_extension(hexadecimal(&nonce) + ".new");
        let mut file = mcp_serve::create_private(&new)?;
        let written = file
            .write_all(&nonce)
            .and_then(|()| file.write_all(&sealed))
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&new, &self.path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }

    fn try_lock(&self) -> io::Result<Option<Box<dyn Any + Send>>> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        // Never replaced, other than the file with the tokens: a lock is on the file, not on its name.
        let options = options.create(true).write(true).truncate(false);
        let file = options.open(self.path.with_extension("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn failed(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use mcp_client::tls::TlsFiles;

    use super::*;
    use crate::config::Secret;

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
        // A folder in the place of the file: it cannot be replaced, and nothing is left behind.
        std::fs::remove_file(&other.path).unwrap();
        std::fs::create_dir_all(other.path.join("x")).unwrap();
        assert!(other.save(b"s3cret").is_err());
        let left = std::fs::read_dir(folder.join("oauth")).unwrap().count();
        assert_eq!(left, 2);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn tokens_of_one_backend_are_locked_by_one_at_a_time() {
        let name = format!("mcp-gateway-lock-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let file = |name: &str| TokenFile {
            path: folder.join(name),
            key: [1; 32],
        };
        let held = file("one").try_lock().unwrap();
        assert!(held.is_some());
        assert!(file("one").try_lock().unwrap().is_none());
        assert!(file("other").try_lock().unwrap().is_some());
        drop(held);
        assert!(file("one").try_lock().unwrap().is_some());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn connections_share_one_source_until_the_secret_changes() {
        let mut settings = OAuthSettings {
            backend: "x".to_owned(),
            grant: GrantType::ClientCredentials,
            client_id: Some("me".to_owned()),
            client_secret: Some(Secret::Text("one".to_owned())),
            client_metadata: None,
            scope: None,
            issuer: None,
            tls: TlsFiles::default(),
            redirect_port: 0,
        };
        let (shared, server) = (SharedOAuth::default(), Endpoint::new("http://x/").unwrap());
        let first = shared.get(&settings, &server).unwrap();
        let same = shared.get(&settings, &server).unwrap();
        assert!(Arc::ptr_eq(&first, &same));
        settings.client_secret = Some(Secret::Text("two".to_owned()));
        let other = shared.get(&settings, &server).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }
}
