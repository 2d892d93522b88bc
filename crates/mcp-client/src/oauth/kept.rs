//! The tokens in use, in memory and in the store.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::MutexGuard;

use super::OAuth;
use super::token::{TokenError, Tokens};
use crate::Error;
use crate::sync::lock;

/// Time after a failed renewal without another one: requests do not wait for an authorization server that is down.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(15);
/// Time between attempts to save a token that could not be saved.
const SAVE_INTERVAL: Duration = Duration::from_secs(15);
/// Timeout for the lock of the store. Longer than a renewal by another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(12);
/// Time between attempts to lock the store.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The right to renew a token: one task of one process has it.
pub(super) struct Renewing<'a> {
    _task: MutexGuard<'a, ()>,
    _process: Option<Box<dyn Any + Send>>,
}

impl OAuth {
    /// Waits until no other task and no other process renews a token.
    pub(super) async fn alone(&self) -> Renewing<'_> {
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
        Renewing {
            _task: task,
            _process: locked.await.unwrap_or_default(),
        }
    }

    pub(super) fn keep(&self, tokens: Tokens) {
        *lock(&self.current) = Some(tokens);
    }

    pub(super) fn kept(&self) -> Option<Tokens> {
        lock(&self.current).clone()
    }

    pub(super) fn forget(&self) {
        *lock(&self.current) = None;
    }

    /// Keeps the successor of a token. One that cannot be saved is kept in memory, and saved later.
    pub(super) fn keep_successor(self: &Arc<Self>, tokens: &Tokens, spent: String) {
        self.keep(tokens.clone());
        *lock(&self.failed) = None;
        let mut in_store = lock(&self.spent);
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
                    if lock(&oauth.spent).is_none() {
                        return;
                    }
                }
            });
        }
    }

    /// The newest tokens: those of the store, unless it still holds what was spent.
    pub(super) fn latest(&self) -> Option<Tokens> {
        let stored = self.load();
        let kept = self.kept();
        let mut spent = lock(&self.spent);
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

    /// Keeps the tokens of a login.
    pub(super) async fn keep_login(&self, tokens: Tokens) -> Result<(), Error> {
        let _alone = self.alone().await;
        let failed = |error| self.problem(format!("the tokens cannot be saved: {error}"));
        self.save(&tokens).map_err(failed)?;
        *lock(&self.spent) = None;
        *lock(&self.failed) = None;
        self.keep(tokens);
        Ok(())
    }

    /// Reads the store. Tokens of another server, issuer or client are ignored: the configuration has changed
    /// since the login.
    pub(super) fn load(&self) -> Option<Tokens> {
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
    pub(super) fn save(&self, tokens: &Tokens) -> std::io::Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        store.save(&serde_json::to_vec(tokens)?)
    }

    /// Remembers a failed renewal, and returns it.
    pub(super) fn failed(&self, error: TokenError) -> TokenError {
        *lock(&self.failed) = Some((Instant::now(), error.again()));
        error
    }

    /// The failure of a renewal a short time ago.
    pub(super) fn failed_lately(&self) -> Option<TokenError> {
        let failed = lock(&self.failed);
        let (time, error) = failed.as_ref()?;
        (time.elapsed() < RENEWAL_INTERVAL).then(|| error.again())
    }

    pub(super) fn warn(&self, problem: &str, error: &std::io::Error) {
        tracing::warn!(peer = %self.config.server.peer(), %error, "{problem}");
    }
}
