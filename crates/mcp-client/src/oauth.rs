//! OAuth 2.1 towards a server (2025-11-25 and 2026-07-28, "Authorization"): finds the authorization server,
//! gets tokens by client credentials or by the login of a person, and refreshes them.
//!
//! * [`OAuth`] is the [`Authorization`] of an [`Endpoint`].
//! * [`OAuth::login`] lets a person log in, in a browser.
//! * A [`TokenStore`] keeps what a login has given.

mod discovery;
mod grant;
mod login;
mod token;

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use url::Url;

use self::discovery::{AllowedUrls, Challenge};
use self::token::{TokenError, Tokens};
use crate::Authorization;
use crate::http::{Content, fetch};
use crate::tls::TlsFiles;
use crate::{Endpoint, Error};

/// The way to get tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantType {
    /// By the client's own id and secret.
    ClientCredentials,
    /// By a person who logs in.
    Login,
}

/// The settings of [`OAuth`]. Has no `Debug`: it may hold a secret.
#[derive(Clone)]
pub struct OAuthConfig {
    /// The server that asks for tokens, with its TLS and proxy.
    pub server: Endpoint,
    /// The way to get tokens.
    pub grant: GrantType,
    /// The id of a client that is registered at the authorization server.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// The URL of a document about this client, which is its id at authorization servers that support this.
    pub client_metadata: Option<String>,
    /// The scopes to ask for; else those that the server names.
    pub scope: Option<String>,
    /// The only authorization server that may be used.
    pub issuer: Option<String>,
    /// The CA and client certificate for the authorization server, if it is not on the host of the server.
    pub tls: TlsFiles,
    /// The port to which a login returns; 0 for any.
    pub redirect_port: u16,
    /// The action by which a person logs in, for errors.
    pub how_to_login: String,
}

/// Keeps the tokens of a login. They are secrets.
pub trait TokenStore: Send + Sync {
    /// Returns what was saved last.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&self, tokens: &[u8]) -> io::Result<()>;

    /// Locks it against other processes until the returned value is dropped; `None` if another one has the lock.
    ///
    /// # Errors
    /// If it cannot be locked.
    fn try_lock(&self) -> io::Result<Option<Box<dyn Any + Send>>> {
        Ok(Some(Box::new(())))
    }
}

/// The tokens of one server. Has no `Debug`.
pub struct OAuth {
    config: OAuthConfig,
    server_url: Url,
    store: Option<Arc<dyn TokenStore>>,
    allowed: AllowedUrls,
    /// The token in use.
    current: Mutex<Option<Tokens>>,
    /// The spent token that the store still holds, since its successor could not be saved.
    spent: Mutex<Option<String>>,
    /// The last failed renewal.
    failed: Mutex<Option<(Instant, TokenError)>>,
    /// Held while a token is asked for: one request for all that need it.
    renewing: AsyncMutex<()>,
    /// The last refusal of the server.
    challenge: Mutex<Option<Challenge>>,
}

impl OAuth {
    /// The tokens of a server, of which `store` keeps those of a login; without it they are kept in memory.
    pub fn new(config: OAuthConfig, store: Option<Arc<dyn TokenStore>>) -> Self {
        let server_url = config.server.url().clone();
        let allowed = AllowedUrls::new(server_url.clone(), config.issuer.as_deref());
        Self {
            config,
            server_url,
            store,
            allowed,
            current: Mutex::default(),
            spent: Mutex::default(),
            failed: Mutex::default(),
            renewing: AsyncMutex::default(),
            challenge: Mutex::default(),
        }
    }

    fn problem(&self, problem: impl Into<String>) -> Error {
        Error::Unauthorized {
            peer: self.config.server.peer().clone(),
            problem: problem.into(),
        }
    }

    /// Returns the URL if it may be asked.
    fn allowed(&self, address: &str) -> Result<Url, Error> {
        self.allowed.check(address).ok_or_else(|| {
            let text = "an address of its metadata is not allowed: it must be https, and not on this machine or its link";
            self.problem(text)
        })
    }

    async fn fetch(
        &self,
        url: &Url,
        content: Content,
        authorization: Option<HeaderValue>,
    ) -> Result<(StatusCode, Bytes), Error> {
        let mut endpoint = self.config.server.beside(url.as_str())?;
        if url.origin() != self.server_url.origin() {
            endpoint = endpoint.tls_files(self.config.tls.clone());
        }
        let answer = fetch(endpoint, content, authorization).await;
        answer.map_err(|error| match error {
            Error::Invalid(_) | Error::Unreachable { .. } => error,
            error => Error::unavailable(url, &error.to_string()),
        })
    }

    /// The refusal that a login starts from.
    fn last_challenge(&self) -> Option<Challenge> {
        self.challenge.lock().clone()
    }

    /// An endpoint of the server with these tokens.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        self.authorize(self.config.server.clone())
    }

    /// Adds these tokens to an endpoint of the server.
    pub fn authorize(self: &Arc<Self>, endpoint: Endpoint) -> Endpoint {
        endpoint.authorization(Arc::new(Arc::clone(self)) as Arc<dyn Authorization>)
    }
}
