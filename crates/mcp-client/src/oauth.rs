//! OAuth 2.1 towards a server (2025-11-25 and 2026-07-28, "Authorization"): finds the authorization server,
//! gets tokens by client credentials or by the login of a person, and keeps and renews them.
//!
//! * [`OAuth`] is the [`Authorization`] of an [`Endpoint`].
//! * [`OAuth::login`] lets a person log in, in a browser.
//! * A [`TokenStore`] keeps what a login has given.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use url::Url;

use crate::http::{Content, fetch};
use crate::oauth::discovery::{Challenge, allowed};
use crate::oauth::token::{RegisteredClient, Tokens, union};
use crate::tls::TlsFiles;
use crate::{Authorization, Endpoint, Error, TokenRefusal};

mod discovery;
mod login;
mod token;

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
    current: Mutex<Option<Tokens>>,
    /// The spent token that the store still holds, since its successor could not be saved.
    spent: Mutex<Option<String>>,
    /// The last failed renewal.
    failed: Mutex<Option<(Instant, Error)>>,
    /// Held while a token is asked for: one request for all that need it.
    renewing: AsyncMutex<()>,
    /// The last refusal of the server.
    challenge: Mutex<Option<Challenge>>,
}

impl OAuth {
    /// The tokens of a server, of which `store` keeps those of a login; without it they are kept in memory.
    pub fn new(config: OAuthConfig, store: Option<Arc<dyn TokenStore>>) -> Self {
        let server_url = config.server.url().clone();
        Self {
            config,
            server_url,
            store,
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
        let issuer = self.config.issuer.as_deref();
        allowed(&self.server_url, issuer, address).ok_or_else(|| {
            let text = "an address of its metadata is not allowed: it must be https, and not on this machine or its link";
            self.problem(text)
        })
    }

    async fn fetch(
        &self,
        url: &Url,
        content: Option<Content>,
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

    /// An endpoint of the server with these tokens.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        self.authorize(self.config.server.clone())
    }

    /// Adds these tokens to an endpoint of the server.
    pub fn authorize(self: &Arc<Self>, endpoint: Endpoint) -> Endpoint {
        endpoint.authorization(Arc::new(Arc::clone(self)) as Arc<dyn Authorization>)
    }
}

impl OAuth {
    fn login_needed(&self, why: &str) -> Error {
        self.problem(format!("{why}: {}", self.config.how_to_login))
    }

    fn fresh(&self) -> Option<Tokens> {
        self.kept().filter(|tokens| !tokens.is_due())
    }

    /// The token for the next request. One that is due is used until its end if it cannot be renewed.
    async fn usable(self: &Arc<Self>) -> Result<Option<Tokens>, Error> {
        if let Some(tokens) = self.fresh() {
            return Ok(Some(tokens));
        }
        let _alone = self.alone().await;
        if let Some(tokens) = self.fresh() {
            return Ok(Some(tokens));
        }
        // Without a token the server refuses the request, and says where tokens are.
        let Some(tokens) = self.latest() else {
            return Ok(None);
        };
        self.keep(tokens.clone());
        let is_login = self.config.grant == GrantType::Login;
        if !tokens.is_due() || is_login && tokens.refresh.is_none() {
            return Ok(Some(tokens));
        }
        match self.renewed(tokens.clone()).await {
            Ok(tokens) => Ok(Some(tokens)),
            Err(_) if !tokens.is_expired() => Ok(Some(tokens)),
            Err(Error::Unauthorized { .. }) if !is_login => {
                *self.current.lock() = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Renews a token and keeps it, but not soon after a failure.
    async fn renewed(self: &Arc<Self>, mut tokens: Tokens) -> Result<Tokens, Error> {
        if let Some(error) = self.failed_lately() {
            return Err(error);
        }
        let spent = tokens.access.clone();
        let Err(error) = self.refresh(&mut tokens).await else {
            self.keep_successor(&tokens, spent);
            return Ok(tokens);
        };
        // A process that does not lock the store may have renewed it, which ends this refresh token.
        let is_other = |other: &Tokens| other.access != spent && !other.is_due();
        if matches!(error, Error::Unauthorized { .. })
            && let Some(other) = self.latest().filter(is_other)
        {
            self.keep(other.clone());
            return Ok(other);
        }
        Err(self.failed(error))
    }

    async fn handle(self: &Arc<Self>, refusal: TokenRefusal) -> Result<(), Error> {
        let challenge = Challenge::read(&refusal.challenges);
        *self.challenge.lock() = Some(challenge.clone());
        let lacks_scope = refusal.status == StatusCode::FORBIDDEN;
        let is_login = self.config.grant == GrantType::Login;
        if refusal.is_repeated && !lacks_scope {
            let why = "it has refused a new token";
            if is_login {
                return Err(self.login_needed(why));
            }
            return Err(self.failed(self.problem(why)));
        }
        let _alone = self.alone().await;
        let is_other = |tokens: &Tokens| tokens.header() != refusal.used;
        if !refusal.is_repeated && self.fresh().as_ref().is_some_and(is_other) {
            return Ok(());
        }
        if is_login {
            return self.relogin(&challenge, &refusal, lacks_scope).await;
        }
        let before = self.kept().filter(|_| lacks_scope);
        let before = before.map(|tokens| tokens.scope);
        let has_asked =
            |scope: &Option<String>| union(scope.clone(), challenge.scope.as_deref()) == *scope;
        if refusal.is_repeated || before.as_ref().is_some_and(has_asked) {
            let scope = challenge.scope.unwrap_or_default();
            return Err(self.problem(format!("its token lacks the scope {scope:?}")));
        }
        match self.failed_lately() {
            Some(error) => Err(error),
            None => self.take_credentials(&challenge, before.flatten()).await,
        }
    }

    async fn relogin(
        self: &Arc<Self>,
        challenge: &Challenge,
        refusal: &TokenRefusal,
        lacks_scope: bool,
    ) -> Result<(), Error> {
        let Some(mut tokens) = self.latest() else {
            return Err(self.login_needed("it needs a login"));
        };
        if !refusal.is_repeated && tokens.header() != refusal.used {
            self.keep(tokens);
            return Ok(());
        }
        if lacks_scope {
            let scope = challenge.scope.clone().unwrap_or_default();
            let wanted = union(tokens.wanted_scope.clone(), Some(&scope));
            if wanted != tokens.wanted_scope {
                tokens.wanted_scope = wanted;
                self.keep(tokens.clone());
                if let Err(error) = self.save(&tokens) {
                    self.warn("the scope cannot be saved for the next login", &error);
                }
            }
            let why = format!("it needs the scope {scope:?}, which the login does not have");
            return Err(self.login_needed(&why));
        }
        if tokens.refresh.is_none() {
            return Err(self.login_needed("its login has ended"));
        }
        let used = tokens.access.clone();
        if self.renewed(tokens).await?.access == used {
            return Err(self.login_needed("it has refused its token"));
        }
        Ok(())
    }

    /// Gets a token by the client's own credentials.
    async fn take_credentials(
        &self,
        challenge: &Challenge,
        before: Option<String>,
    ) -> Result<(), Error> {
        let failed = |error| self.failed(error);
        let found = self.discover(challenge).await.map_err(failed)?;
        let Some(id) = self.config.client_id.clone() else {
            return Err(self.problem("it needs `client_id`"));
        };
        let secret = self.config.client_secret.clone();
        let client = RegisteredClient::new(id, secret, &found.server);
        let wanted = self.config.scope.clone().or_else(|| found.scope.clone());
        let scope = union(union(before, wanted.as_deref()), challenge.scope.as_deref());
        let tokens = self.new_tokens(&found, client, scope);
        let mut tokens = tokens.map_err(failed)?;
        self.refresh(&mut tokens).await.map_err(failed)?;
        *self.failed.lock() = None;
        self.keep(tokens);
        Ok(())
    }
}

/// A renewal goes on when the request that needs it is cancelled: a refresh token that has been used, and whose
/// successor is lost, would end the login.
impl Authorization for Arc<OAuth> {
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>> {
        let oauth = Arc::clone(self);
        let renew = async move { oauth.usable().await };
        // No request waits for the renewal of a token that is still valid.
        if let Some(tokens) = self.kept().filter(|tokens| !tokens.is_expired()) {
            let may_renew = || self.renewing.try_lock().is_ok() && self.failed_lately().is_none();
            if tokens.is_due() && may_renew() {
                tokio::spawn(renew);
            }
            return std::future::ready(Ok(tokens.header())).boxed();
        }
        let tokens = tokio::spawn(renew);
        let failed = |error: tokio::task::JoinError| Err(self.problem(error.to_string()));
        async move {
            let tokens = tokens.await.unwrap_or_else(failed)?;
            Ok(tokens.and_then(|tokens| tokens.header()))
        }
        .boxed()
    }

    fn refused(&self, refusal: TokenRefusal) -> BoxFuture<'_, Result<(), Error>> {
        let oauth = Arc::clone(self);
        let handled = tokio::spawn(async move { oauth.handle(refusal).await });
        let failed = |error: tokio::task::JoinError| Err(self.problem(error.to_string()));
        async move { handled.await.unwrap_or_else(failed) }.boxed()
    }
}

/// Time after a failed renewal without another one: requests do not wait for an authorization server that is down.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(15);
/// Time between attempts to save a token that could not be saved.
const SAVE_INTERVAL: Duration = Duration::from_secs(15);
/// Timeout for the lock of the store. Longer than a renewal by another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(12);
/// Time between attempts to lock the store.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The right to renew a token: one task of one process has it.
type Renewing<'a> = (MutexGuard<'a, ()>, Option<Box<dyn Any + Send>>);

impl OAuth {
    /// Waits until no other task and no other process renews a token.
    async fn alone(&self) -> Renewing<'_> {
        let task = self.renewing.lock().await;
        let locked = tokio::time::timeout(LOCK_TIMEOUT, async {
            loop {
                match self.store.as_ref()?.try_lock() {
                    Ok(Some(held)) => return Some(held),
                    Ok(None) => tokio::time::sleep(LOCK_INTERVAL).await,
                    Err(error) => {
                        self.warn("the store of the tokens cannot be locked", &error);
                        return None;
                    }
                }
            }
        });
        (task, locked.await.unwrap_or_default())
    }

    fn keep(&self, tokens: Tokens) {
        *self.current.lock() = Some(tokens);
    }

    fn kept(&self) -> Option<Tokens> {
        self.current.lock().clone()
    }

    /// Keeps the successor of a token. One that cannot be saved is kept in memory, and saved later.
    fn keep_successor(self: &Arc<Self>, tokens: &Tokens, spent: String) {
        self.keep(tokens.clone());
        *self.failed.lock() = None;
        let mut in_store = self.spent.lock();
        let Err(error) = self.save(tokens) else {
            *in_store = None;
            return;
        };
        self.warn("the renewed token cannot be saved", &error);
        if in_store.is_none() {
            *in_store = Some(spent);
            let oauth = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(SAVE_INTERVAL).await;
                    let Some(oauth) = oauth.upgrade() else { return };
                    let _alone = oauth.alone().await;
                    oauth.latest();
                    if oauth.spent.lock().is_none() {
                        return;
                    }
                }
            });
        }
    }

    /// The newest tokens: those of the store, unless it still holds what was spent.
    fn latest(&self) -> Option<Tokens> {
        let stored = self.load();
        let kept = self.kept();
        let mut spent = self.spent.lock();
        let is_old = |stored: &Tokens| spent.as_ref() == Some(&stored.access);
        if spent.is_some() && stored.as_ref().is_none_or(is_old) {
            if kept.as_ref().is_some_and(|kept| self.save(kept).is_ok()) {
                *spent = None;
            }
            return kept;
        }
        *spent = None;
        stored.or(kept)
    }

    async fn keep_login(&self, tokens: Tokens) -> Result<(), Error> {
        let _alone = self.alone().await;
        let failed = |error| self.problem(format!("the tokens cannot be saved: {error}"));
        self.save(&tokens).map_err(failed)?;
        *self.spent.lock() = None;
        *self.failed.lock() = None;
        self.keep(tokens);
        Ok(())
    }

    /// Reads the store. Tokens of another server, issuer or client are ignored: the configuration has changed
    /// since the login.
    fn load(&self) -> Option<Tokens> {
        let stored = match self.store.as_ref()?.load() {
            Ok(stored) => stored?,
            Err(error) => {
                self.warn("the tokens cannot be read", &error);
                return None;
            }
        };
        let mut tokens: Tokens = serde_json::from_slice(&stored).ok()?;
        let is_same = |configured: &Option<String>, stored: &String| {
            configured
                .as_ref()
                .is_none_or(|configured| configured == stored)
        };
        if tokens.server != self.server_url.as_str()
            || !is_same(&self.config.issuer, &tokens.issuer)
            || !is_same(&self.config.client_id, &tokens.client.id)
        {
            return None;
        }
        if let Some(secret) = &self.config.client_secret {
            tokens.client.secret = Some(secret.clone());
        }
        Some(tokens)
    }

    /// Saves tokens, if there is a store.
    fn save(&self, tokens: &Tokens) -> io::Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        store.save(&serde_json::to_vec(tokens)?)
    }

    /// Remembers a failed renewal, and returns it.
    fn failed(&self, error: Error) -> Error {
        *self.failed.lock() = Some((Instant::now(), error.clone()));
        error
    }

    /// The failure of a renewal a short time ago.
    fn failed_lately(&self) -> Option<Error> {
        let failed = self.failed.lock();
        let (time, error) = failed.as_ref()?;
        (time.elapsed() < RENEWAL_INTERVAL).then(|| error.clone())
    }

    fn warn(&self, problem: &str, error: &io::Error) {
        tracing::warn!(peer = %self.config.server.peer(), %error, "{problem}");
    }
}
